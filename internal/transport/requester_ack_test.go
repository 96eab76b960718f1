package transport

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Three messages of 1, 2 and 1 packets are outstanding as PSNs 0, 1-2, 3.
func reqThree(r *reqRig) {
	r.send(1)
	r.write(2 * reqMTU)
	r.send(1)
	r.expect("SEND_ONLY 0 1B A", "WRITE_FIRST 1 [+0 512] 256B", "WRITE_LAST 2 256B A", "SEND_ONLY 3 1B A")
}

func TestReqAckCompletes(t *testing.T) {
	for _, c := range []struct {
		name string
		ack  int
		want []string
	}{
		{"one before the oldest", -1, nil},
		{"two before the oldest", -2, nil},
		{"half the PSN space ahead", psn.Half - 1, nil},
		{"half the PSN space behind", -psn.Half, nil},
		{"after the last sent", 4, nil},
		{"the oldest", 0, []string{"1 SUCCESS"}},
		{"inside a message", 1, []string{"1 SUCCESS"}},
		{"end of the second", 2, []string{"1 SUCCESS", "2 SUCCESS"}},
		{"the last", 3, []string{"1 SUCCESS", "2 SUCCESS", "3 SUCCESS"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			reqEach(t, nil, func(r *reqRig) {
				reqThree(r)
				r.ack(c.ack)
				r.done(c.want...)
				r.expect()
				r.ack(3)
				r.inState(ibv.QPStateRTS)
			})
		})
	}
}

func TestReqAckCounters(t *testing.T) {
	r := newReqRig(t, reqDefaults())
	reqThree(r)
	r.ack(-1)
	r.counted(DuplicateAck, 1)
	r.ack(-2)
	r.ack(4)
	r.nak(-1)
	r.counted(DropStaleResponse, 3)
	r.ackWith(0, 0x40)
	r.ackWith(0, 0x85)
	r.counted(DropSyndrome, 2)
	r.done()
	r.ack(3)
	r.counted(RDMASends, 2) // WRITEs are not SENDs
	r.counted(SentPkts, 4)
	r.counted(SentBytes, 514)
}

// Credit codes of an ACK do not matter: code 0 completes like any other and
// stalls nothing.
func TestReqAckCredits(t *testing.T) {
	for code := uint8(0); code < 32; code++ {
		r := newReqRig(t, reqDefaults())
		r.send(1)
		r.poll()
		r.ackWith(0, wire.SynACK(code))
		r.done("1 SUCCESS")
		r.send(1)
		r.expect("SEND_ONLY 1 1B A")
	}
}

// In any order and however often ACKs arrive, each message completes once.
func TestReqAckRepeatedAndReordered(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		reqThree(r)
		for _, k := range []int{1, 0, 1, 2, 0, 3, 2, 3} {
			r.ack(k)
		}
		r.done("1 SUCCESS", "2 SUCCESS", "3 SUCCESS")
	})
}

func TestReqUnsignaled(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.unsigned = true }, func(r *reqRig) {
		reqThree(r)
		r.post(queue.SendWQE{Opcode: ibv.WRSend, Flags: ibv.SendSignaled})
		r.poll()
		r.ack(4)
		r.done("4 SUCCESS")
	})
	reqEach(t, func(c *reqConfig) { c.unsigned, c.sigAll = true, true }, func(r *reqRig) {
		reqThree(r)
		r.ack(3)
		r.done("1 SUCCESS", "2 SUCCESS", "3 SUCCESS")
	})
	// An error is always reported.
	reqEach(t, func(c *reqConfig) { c.unsigned = true }, func(r *reqRig) {
		reqThree(r)
		r.ackWith(0, wire.NakRemoteOp)
		r.failed("1 REM_OP_ERR", 2, 2)
	})
}

// A NAK acknowledges what is before it, then its own message fails.
func TestReqNakErrors(t *testing.T) {
	for _, c := range []struct {
		syn  wire.Syndrome
		want string
	}{
		{wire.NakInvalidRequest, "REM_INV_REQ_ERR"},
		{wire.NakRemoteAccess, "REM_ACCESS_ERR"},
		{wire.NakRemoteOp, "REM_OP_ERR"},
		{wire.NakInvalidRD, "REM_OP_ERR"},
		{0x65, "REM_OP_ERR"},
		{0x7F, "REM_OP_ERR"},
	} {
		t.Run(c.want, func(t *testing.T) {
			reqEach(t, nil, func(r *reqRig) {
				reqThree(r)
				r.ackWith(2, c.syn) // the second packet of the second message
				r.done("1 SUCCESS", "2 "+c.want, "3 WR_FLUSH_ERR")
				r.inState(ibv.QPStateErr)
				r.deadline(0)
			})
		})
	}
}

func TestReqNakErrorOutsideIsIgnored(t *testing.T) {
	for _, k := range []int{-2, -1, 4, psn.Half - 1} {
		reqEach(t, nil, func(r *reqRig) {
			reqThree(r)
			r.ackWith(k, wire.NakRemoteAccess)
			r.rnrNak(k, 1)
			r.nak(k)
			r.done()
			r.expect()
			r.inState(ibv.QPStateRTS)
			r.counted(DropStaleResponse, 3)
		})
	}
}

// An ACK of a later request shows that a READ or atomic was executed and its
// response lost: it is asked for again, once.
func TestReqImpliedNak(t *testing.T) {
	for _, syn := range []wire.Syndrome{wire.SynACK(31), wire.NakPSNSeq, wire.SynRNR(5), wire.NakRemoteOp} {
		reqEach(t, nil, func(r *reqRig) {
			r.send(1)
			r.fadd()
			r.send(1)
			r.send(1)
			r.expect("SEND_ONLY 0 1B A", "FETCH_ADD 1 A", "SEND_ONLY 2 1B A", "SEND_ONLY 3 1B A")
			r.ackWith(2, syn)
			r.done("1 SUCCESS")
			r.counted(ImpliedNak, 1)
			r.counted(CompleterRetryErr, 1)
			if syn.Kind() == wire.KindACK { // 2 is there
				r.expect("FETCH_ADD 1 A", "SEND_ONLY 3 1B A")
			} else {
				r.expect("FETCH_ADD 1 A", "SEND_ONLY 2 1B A", "SEND_ONLY 3 1B A")
			}
			r.ackWith(3, syn) // of the first sending
			r.counted(ImpliedNak, 2)
			r.expect()
			r.atomicAck(1, 9)
			r.ack(3)
			r.done("2 SUCCESS 8B", "3 SUCCESS", "4 SUCCESS")
		})
	}
}

// An ACK of exactly the PSN of a READ does not complete it.
func TestReqAckDoesNotCompleteRead(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.read(2 * reqMTU)
		r.expect("READ_REQUEST 0 [+0 512] A")
		r.ack(1)
		r.done()
		r.expect("READ_REQUEST 0 [+0 512] A")
		r.answer(0, 2*reqMTU, 0, 2)
		r.done("1 SUCCESS 512B")
	})
}

// Responses to the first sending overtake a repetition that has not begun or is
// under way: it goes on behind them.
func TestReqAckOvertakesRepetition(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.batch = 2 }, func(r *reqRig) {
		r.send(6 * reqMTU)
		r.poll()
		r.poll()
		r.poll()
		r.nak(0)
		r.ack(2)
		r.expect("SEND_MIDDLE 3 256B", "SEND_MIDDLE 4 256B A")
		r.nak(3)
		r.expect("SEND_MIDDLE 3 256B", "SEND_MIDDLE 4 256B A")
		r.ack(4)
		r.expect("SEND_LAST 5 256B A")
		r.ack(5)
		r.done("1 SUCCESS")
	})
}

func TestReqPeerChecks(t *testing.T) {
	r := newReqRig(t, reqDefaults())
	r.send(1)
	r.poll()
	r.packet(wire.Acknowledge, 0, nil, func(p *wire.Packet) { p.SrcGID[0] = 1 })
	r.packet(wire.Acknowledge, 0, nil, func(p *wire.Packet) { wire.BTHAt(p.BTH).SetPKey(0x1234) })
	r.done()
	r.qp.state = ibv.QPStateRTR
	r.ack(0)
	r.done()
	r.qp.state = ibv.QPStateRTS
	r.ack(0)
	r.done("1 SUCCESS")
}
