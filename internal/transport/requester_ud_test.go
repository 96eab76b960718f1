package transport

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func TestUDMessages(t *testing.T) {
	reqEach(t, onUD, func(r *reqRig) {
		r.send(0)
		r.send(1)
		r.send(reqMTU)
		r.wr(ibv.WRSendWithImm, 9)
		r.wr(ibv.WRSend, 10, r.sge(100, 3), r.sge(0, 0), r.sge(50, 7))
		r.expect("SEND_ONLY 0 key 22222222", "SEND_ONLY 1 key 22222222 1B", "SEND_ONLY 2 key 22222222 256B",
			"SEND_ONLY_WITH_IMMEDIATE 3 key 22222222 9B", "SEND_ONLY 4 key 22222222 10B")
		in := &r.tx.Intents[3]
		if got := binary.BigEndian.Uint32(in.Hdr[in.Info.ImmDt:]); got != 0xA1B2C3D4 {
			r.Errorf("immediate data %#x", got)
		}
		if want := append(bytes.Clone(reqPattern[100:103]), reqPattern[50:57]...); !bytes.Equal(r.payload(4), want) {
			r.Errorf("gathered % x, want % x", r.payload(4), want)
		}
		r.expect()
		r.done("1 SUCCESS", "2 SUCCESS", "3 SUCCESS", "4 SUCCESS", "5 SUCCESS")
	})
}

// A Q_Key with its highest bit set stands for the sender's own; QP1 has a fixed
// one.
func TestUDQKey(t *testing.T) {
	for _, tt := range []struct {
		on         func(*reqConfig)
		own, given uint32
		want       string
	}{
		{onUD, 0x11111111, 0x7FFFFFFF, "7fffffff"},
		{onUD, 0x11111111, 0, "0"},
		{onUD, 0x11111111, 0x80000000, "11111111"},
		{onUD, reqOwn, 0xFFFFFFFF, "91111111"},
		{onGSI, 0x11111111, 0x80010000, "80010000"},
		{onGSI, 0x11111111, 0x22222222, "80010000"},
		{onGSI, 0, 0xFFFFFFFF, "80010000"},
	} {
		t.Run(fmt.Sprintf("own %x, given %x", tt.own, tt.given), func(t *testing.T) {
			r := newReqRigOn(t, tt.on)
			r.qp.attr.QKey = tt.own
			w := r.hdr(ibv.WRSend, 0)
			w.RemoteQKey = tt.given
			r.post(w)
			r.expect("SEND_ONLY 0 key " + tt.want)
		})
	}
}

// Each datagram has its own destination.
func TestUDDestinations(t *testing.T) {
	r := newReqRigOn(t, onUD)
	want := []struct{ ah, qpn uint32 }{{0, 1}, {7, 0x123456}, {0xFFFFFFFF, 0xFFFFFE}, {8, wire.MulticastQP}}
	for _, d := range want {
		w := r.hdr(ibv.WRSend, 0)
		w.AH, w.RemoteQPN = d.ah, d.qpn
		r.post(w)
	}
	r.sent(len(want))
	for i, d := range want {
		in := &r.tx.Intents[i]
		if got := wire.BTHAt(in.Hdr[:]).DestQP(); got != d.qpn || in.AH != d.ah {
			t.Errorf("QP %#x by AH %d, want %#x by %d", got, in.AH, d.qpn, d.ah)
		}
	}
	for _, qpn := range []uint32{0, 1 << 24, 0xFFFFFFFF} {
		r := newReqRigOn(t, onUD)
		w := r.hdr(ibv.WRSend, 0)
		w.RemoteQPN = qpn
		r.post(w)
		r.expect()
		r.done("1 LOC_QP_OP_ERR")
		r.inState(ibv.QPStateSQE)
	}
}

func TestUDLongerThanTheMTU(t *testing.T) {
	reqEach(t, onUD, func(r *reqRig) {
		r.send(1)
		r.send(reqMTU + 1)
		r.send(1)
		r.sent(1)
		r.sent(0)
		r.done("1 SUCCESS", "2 LOC_LEN_ERR", "3 WR_FLUSH_ERR")
		r.inState(ibv.QPStateSQE)
	})
}

// The port's MTU counts when the datagram is sent.
func TestUDPortMTUChanges(t *testing.T) {
	r := newReqRigOn(t, func(c *reqConfig) { c.typ, c.batch = ibv.QPTypeUD, 1 })
	r.send(1)
	r.send(200)
	r.sent(1)
	r.sqd(false)
	r.qp.SetPortMTU(100)
	r.sent(0)
	r.toRTS()
	r.sent(0)
	r.done("1 SUCCESS", "2 LOC_LEN_ERR")
	r.toRTS()
	r.qp.SetPortMTU(4096)
	r.send(4096)
	r.expect("SEND_ONLY 1 key 22222222 4096B")
}

func TestPortMTU(t *testing.T) {
	for _, tt := range []struct {
		typ  ibv.QPType
		want int
	}{{ibv.QPTypeUD, 1024}, {ibv.QPTypeGSI, 1024}, {ibv.QPTypeRC, 0}, {ibv.QPTypeUC, 0}} {
		q := modQP(t, tt.typ)
		q.SetPortMTU(1024)
		if q.mtu != tt.want {
			t.Errorf("%v: MTU %d, want %d", tt.typ, q.mtu, tt.want)
		}
		mustModify(t, q, &ibv.QPAttr{State: ibv.QPStateReset}, ibv.QPAttrState)
		if q.mtu != tt.want {
			t.Errorf("%v: MTU %d after RESET, want %d", tt.typ, q.mtu, tt.want)
		}
		if q.SetPortMTU(-1); q.portMTU != 0 {
			t.Errorf("port MTU is %d", q.portMTU)
		}
	}
}

func TestUDAddressFault(t *testing.T) {
	for i, want := range [][]string{
		{"1 LOC_QP_OP_ERR", "2 WR_FLUSH_ERR", "3 WR_FLUSH_ERR"},
		{"1 SUCCESS", "2 LOC_QP_OP_ERR", "3 WR_FLUSH_ERR"},
		{"1 SUCCESS", "2 SUCCESS", "3 LOC_QP_OP_ERR"},
	} {
		reqEach(t, onUD, func(r *reqRig) {
			for range 3 {
				r.send(1)
			}
			r.sent(3)
			r.qp.AddressFault(r.now, &r.tx.Intents[i])
			r.done(want...)
			r.inState(ibv.QPStateSQE)
			r.counted(AddressFault, 1)
			r.counted(PayloadFault, 0)
			r.toRTS()
			r.send(1)
			r.expect("SEND_ONLY 3 key 22222222 1B")
			r.expect()
			r.done("4 SUCCESS")
		})
	}
}

// What was sent before a fault and what is posted after it do not mix: unsignaled
// requests fail like others.
func TestUDAddressFaultOfUnsignaled(t *testing.T) {
	r := newReqRigOn(t, func(c *reqConfig) { c.typ, c.unsigned = ibv.QPTypeUD, true })
	r.send(1)
	r.send(1)
	r.sent(2)
	r.qp.AddressFault(r.now, &r.tx.Intents[1])
	r.done("2 LOC_QP_OP_ERR")
}

func TestOneWayDoesNotAllocate(t *testing.T) {
	oneWayEach(t, func(c *reqConfig) { c.inline = 0 }, func(r *reqRig) {
		n := reqMTU
		if r.typ == ibv.QPTypeUC {
			n = 3*reqMTU + 1
		}
		w, s := r.hdr(ibv.WRSendWithImm, ibv.SendSignaled), []queue.SGE{r.sge(0, n)}
		w.NumSGE, w.Length = 1, uint32(n)
		before := r.id
		round := func() {
			r.post(w, s...)
			for more := true; more; {
				r.tx.Reset(r.batch)
				more = r.qp.Poll(r.now, r.tx)
			}
			done, _ := r.cq.Avail()
			r.cq.Release(done)
		}
		if n := testing.AllocsPerRun(100, round); n != 0 {
			r.Errorf("%v allocations for each message", n)
		}
		r.counted(RDMASends, r.id-before)
	})
}
