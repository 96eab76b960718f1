package transport

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// A READ of four packets, two of which are here: an error NAK of any of its PSNs
// ends it, whether the responder names the request or the response it lacks.
func TestReqNakInsideRead(t *testing.T) {
	for k, ends := range map[int]bool{-1: false, 0: true, 1: true, 2: true, 3: true, 4: false} {
		reqEach(t, nil, func(r *reqRig) {
			r.send(1)
			r.read(4 * reqMTU)
			r.send(1)
			r.poll()
			r.ack(0)
			r.answer(1, 4*reqMTU, 0, 2)
			r.done("1 SUCCESS")
			r.ackWith(1+k, wire.NakRemoteAccess)
			if ends {
				r.done("2 REM_ACCESS_ERR", "3 WR_FLUSH_ERR")
				r.inState(ibv.QPStateErr)
				return
			}
			r.done()
			r.inState(ibv.QPStateRTS)
		})
	}
}

// A sequence NAK of a PSN that was answered is an old one; so is an error NAK of
// a READ that has not been sent.
func TestReqNakInsideReadThatMeansNothing(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.read(4 * reqMTU)
		r.ackWith(0, wire.NakRemoteAccess)
		r.done()
		r.poll()
		r.answer(0, 4*reqMTU, 0, 2)
		r.nak(0)
		r.nak(1)
		r.expect()
		r.resp(wire.ReadRespMid, 2, reqRemote(4 * reqMTU)[2*reqMTU:3*reqMTU])
		r.resp(wire.ReadRespLast, 3, reqRemote(4 * reqMTU)[3*reqMTU:])
		r.done("1 SUCCESS 1024B")
	})
}
