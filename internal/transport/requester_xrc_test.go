package transport

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func onXRC(c *reqConfig) { c.typ = ibv.QPTypeXRCSend }

// Every request packet of an initiator names the peer's queue, in all else it is
// one of RC.
func TestXRCInitiatorMessages(t *testing.T) {
	conformance.Rule(t, "2.1-29")
	reqEach(t, onXRC, func(r *reqRig) {
		r.send(0)
		r.wr(ibv.WRSendWithImm, 2*reqMTU+1)
		r.wr(ibv.WRSendWithInv, 5)
		r.write(reqMTU + 1)
		r.wr(ibv.WRRDMAWriteWithImm, 5)
		r.read(600)
		r.fadd()
		r.wr(ibv.WRAtomicCmpAndSwp, 8)
		r.expect(
			"SEND_ONLY 0 srq 9 A",
			"SEND_FIRST 1 srq 9 256B", "SEND_MIDDLE 2 srq 9 256B", "SEND_LAST_WITH_IMMEDIATE 3 srq 9 1B A",
			"SEND_ONLY_WITH_INVALIDATE 4 srq 9 5B A",
			"WRITE_FIRST 5 srq 9 [+0 257] 256B", "WRITE_LAST 6 srq 9 1B A",
			"WRITE_ONLY_WITH_IMMEDIATE 7 srq 9 [+0 5] 5B A",
			"READ_REQUEST 8 srq 9 [+0 600] A",
			"FETCH_ADD 11 srq 9 A", "COMPARE_SWAP 12 srq 9 A",
		)
		r.ack(7)
		r.done("1 SUCCESS", "2 SUCCESS", "3 SUCCESS", "4 SUCCESS", "5 SUCCESS")
		r.answer(8, 600, 0, 3)
		r.atomicAck(11, 1)
		r.atomicAck(12, 2)
		r.done("6 SUCCESS 600B", "7 SUCCESS 8B", "8 SUCCESS 8B")
		r.expect()
		r.deadline(0)
	})
}

func TestXRCInitiatorRepeats(t *testing.T) {
	reqEach(t, onXRC, func(r *reqRig) {
		r.send(2 * reqMTU)
		r.expect("SEND_FIRST 0 srq 9 256B", "SEND_LAST 1 srq 9 256B A")
		r.nak(1)
		r.expect("SEND_LAST 1 srq 9 256B A")
		r.rnrNak(1, 1)
		r.expect()
		r.pass(wire.RNRTimer(1))
		r.expect("SEND_LAST 1 srq 9 256B A")
		r.pass(reqTimeout)
		r.expect("SEND_LAST 1 srq 9 256B A")
		r.ack(1)
		r.done("1 SUCCESS")
	})
}

func TestXRCInitiatorFails(t *testing.T) {
	for syn, want := range map[wire.Syndrome]string{
		wire.NakRemoteAccess:   "1 REM_ACCESS_ERR",
		wire.NakInvalidRequest: "1 REM_INV_REQ_ERR",
		wire.NakRemoteOp:       "1 REM_OP_ERR",
	} {
		reqEach(t, onXRC, func(r *reqRig) {
			r.send(1)
			r.send(1)
			r.sent(2)
			r.ackWith(0, syn)
			r.failed(want, 2, 1)
		})
	}
	// There is no SQE: the connection is reliable.
	r := newReqRigOn(t, onXRC)
	for range int(r.retry) + 1 {
		r.send(1)
		r.poll()
		r.pass(4 * reqTimeout)
	}
	r.poll()
	r.failed("1 RETRY_EXC_ERR", 2, int(r.retry))
}

// What XRC does not have, and a number that no queue can have.
func TestXRCInitiatorRefuses(t *testing.T) {
	long := func(r *reqRig) {
		w := r.hdr(ibv.WRSend, ibv.SendSignaled)
		w.SRQN = 1 << 24
		r.post(w)
	}
	for name, post := range map[string]func(r *reqRig){
		"ATOMIC_WRITE": func(r *reqRig) { r.wr(ibv.WRAtomicWrite, 8) },
		"FLUSH": func(r *reqRig) {
			w := r.hdr(ibv.WRFlush, ibv.SendSignaled)
			w.FlushType, w.Length = 1, 8
			r.post(w)
		},
		"25 bits": long,
	} {
		t.Run(name, func(t *testing.T) {
			r := newReqRigOn(t, onXRC)
			post(r)
			r.expect()
			r.failed("1 LOC_QP_OP_ERR", 2, 0)
		})
	}
}
