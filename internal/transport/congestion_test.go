package transport

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// mark gives a request to the responder as a switch has marked it.
func (r *respRig) mark(q respReq, ecn uint8) {
	r.t.Helper()
	p := q.packet()
	p.TOS = 0x68 | ecn
	r.q.HandlePacket(r.now, p)
}

// cnps polls and counts the CNPs, whose bytes it checks.
func (r *respRig) cnps() (n int) {
	r.t.Helper()
	r.tx.Reset(64)
	for i := range r.tx.Intents[:cap(r.tx.Intents)] {
		for j := range r.tx.Intents[:cap(r.tx.Intents)][i].Hdr { // what a packet before has left
			r.tx.Intents[:cap(r.tx.Intents)][i].Hdr[j] = 0xee
		}
	}
	r.q.Poll(r.now, r.tx)
	for i := range r.tx.Intents {
		in := &r.tx.Intents[i]
		if in.Info.Opcode != wire.CNP {
			continue
		}
		n++
		got := wire.BTHAt(in.Hdr[:]).Fields()
		want := wire.BTHFields{Opcode: wire.CNP, PKey: wire.DefaultPKey, BECN: true, DestQP: 0x22}
		if d := cmp.Diff(want, got); d != "" {
			r.t.Errorf("CNP (-want +got):\n%s", d)
		}
		if in.HdrLen != wire.BTHLen+wire.CNPLen || in.Len != 0 || [wire.CNPLen]byte(in.Hdr[wire.BTHLen:]) != [wire.CNPLen]byte{} {
			r.t.Errorf("CNP of %d and %d bytes: % x", in.HdrLen, in.Len, in.Hdr[:in.HdrLen])
		}
	}
	return n
}

// A mark on a packet of a connection is reported, once in an interval.
func TestMarksAreReported(t *testing.T) {
	for _, typ := range []ibv.QPType{ibv.QPTypeRC, ibv.QPTypeUC, ibv.QPTypeUD} {
		r := newRespRig(t, respOn(typ))
		packet := func() respReq {
			q := respPkt(wire.WriteOnly, r.q.resp.st.ePSN).reth(0, 0, 0)
			switch typ {
			case ibv.QPTypeUC:
				return respUC([]respReq{q})[0]
			case ibv.QPTypeUD:
				return respPkt(wire.UD|wire.SendOnly, 0).deth(respQKey)
			default:
				return q
			}
		}
		want := 1
		if typ == ibv.QPTypeUD {
			want = 0 // there is nobody to report to
		}
		r.mark(packet(), 0)
		r.mark(packet(), 2)
		if n := r.cnps(); n != 0 {
			t.Errorf("%v: %d CNPs without a mark", typ, n)
		}
		r.mark(packet(), wire.CE)
		if d := r.q.NextDeadline(); want == 1 && d != r.now {
			t.Errorf("%v: the CNP is due at %d, now is %d", typ, d, r.now)
		}
		r.mark(packet(), wire.CE)
		if n := r.cnps(); n != want {
			t.Errorf("%v: %d CNPs for two marks, want %d", typ, n, want)
		}
		r.now = r.now.Add(DefaultCNPInterval - 1)
		r.mark(packet(), wire.CE)
		if n := r.cnps(); n != 0 {
			t.Errorf("%v: a CNP within the interval", typ)
		}
		r.now = r.now.Add(1)
		r.mark(packet(), wire.CE)
		if n := r.cnps(); n != want {
			t.Errorf("%v: %d CNPs after the interval, want %d", typ, n, want)
		}
		r.expectCount(EcnMarkedPkts, 4*uint64(want))
		r.expectCount(SentCNPs, 2*uint64(want))
	}
}

// A CNP is neither reported, answered nor in the way of anything.
func TestCNPHasNoEffectOnTheConnection(t *testing.T) {
	r := newRespRig(t)
	before := r.q.resp.st
	cnp := respPkt(wire.CNP, 0).extend(make([]byte, 16))
	r.mark(cnp, wire.CE)
	if d := cmp.Diff(before, r.q.resp.st, cmp.AllowUnexported(responderState{})); d != "" {
		t.Error(d)
	}
	if d := r.q.NextDeadline(); d != mono.Never || r.cnps() != 0 {
		t.Errorf("due at %d", d)
	}
	r.expectCount(HandledCNPs, 1)
	r.mark(cnp.source(ibv.GID{15: 9}), 0)
	r.expectCount(HandledCNPs, 1)
	r.expectCount(DropPeer, 1)
}

// What is not wanted is not sent; what does not fit waits.
func TestCNPIntervalAndRoom(t *testing.T) {
	r := newRespRig(t)
	r.env.CNPInterval = 0
	r.mark(respPkt(wire.WriteOnly, 1000).reth(0, 0, 0), wire.CE)
	if r.cnps() != 0 {
		t.Error("a CNP without an interval")
	}
	r.env.CNPInterval = time.Microsecond
	r.mark(respPkt(wire.WriteOnly, 1001).reth(0, 0, 0), wire.CE)
	r.tx.Reset(0)
	if !r.q.Poll(r.now, r.tx) {
		t.Error("Poll says that nothing is left")
	}
	if r.cnps() != 1 {
		t.Error("the CNP is lost")
	}
	r.mark(respPkt(wire.WriteOnly, 1002).reth(0, 0, 0), wire.CE)
	r.modify(ibv.QPAttr{State: ibv.QPStateReset}, ibv.QPAttrState)
	if r.q.np.due {
		t.Error("a CNP is due in RESET")
	}
}

// Requests wait for the rate, and go on when it allows.
func TestRequesterIsPaced(t *testing.T) {
	p := DefaultDCQCN(10 * gbit)
	p.RatePeriod, p.AlphaPeriod = time.Hour, time.Hour
	r := newReqRig(t, reqDefaults())
	r.qp.cc = &reactionPoint{p: &p}
	r.send(4 * reqMTU)
	r.packet(wire.CNP, 0, nil, nil)
	r.packet(wire.CNP, 0, nil, nil) // 2.5 Gbit/s
	r.counted(HandledCNPs, 2)
	if r.qp.cc.rate < 2*gbit || r.qp.cc.rate > 3*gbit {
		t.Fatalf("rate is %d", r.qp.cc.rate)
	}
	r.expect("SEND_FIRST 0 256B")
	r.stopped(reqPaced)
	took := time.Duration((onWire+wire.BTHLen+256)*8*int64(time.Second)/r.qp.cc.rate) + 1
	r.deadline(took)
	r.pass(took - 1)
	r.expect()
	r.pass(1)
	r.expect("SEND_MIDDLE 1 256B")
	r.pass(2 * took) // late: what was missed is made up for
	r.expect("SEND_MIDDLE 2 256B", "SEND_LAST 3 256B A")
	r.nak(1) // repetitions too
	r.expect()
	r.pass(2 * took)
	r.expect("SEND_MIDDLE 1 256B", "SEND_MIDDLE 2 256B")
	r.qp.reset()
	if r.qp.cc.limited {
		t.Error("the limit is there after RESET")
	}
}

// READ responses wait for the rate, and acknowledgements behind them.
func TestResponderIsPaced(t *testing.T) {
	p := DefaultDCQCN(10 * gbit)
	p.RatePeriod, p.AlphaPeriod = time.Hour, time.Hour
	r := newRespRig(t)
	r.q.cc = &reactionPoint{p: &p}
	r.mark(respPkt(wire.CNP, 0).extend(make([]byte, 16)), 0) // 5 Gbit/s
	r.arrive(r.read(1000, 0, 2*respMTU))
	r.arrive(r.write(1002, 0, nil)...)
	r.expect(respData(wire.ReadRespFirst, 1000, 2, make([]byte, respMTU)))
	next := r.q.NextDeadline()
	if wait := next.Sub(r.now); wait < 400*time.Nanosecond || wait > 700*time.Nanosecond {
		t.Errorf("the next response is due in %v", wait)
	}
	r.now = next - 1
	r.expect()
	r.now = next
	r.expect(respData(wire.ReadRespLast, 1001, 2, make([]byte, respMTU)), respAck(1002, 2))
	if d := r.q.NextDeadline(); d != mono.Never {
		t.Errorf("due at %d with nothing left", d)
	}
}
