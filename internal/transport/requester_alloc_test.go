package transport

import (
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// reqLoop is a rig with responses made once, to be sent again and again.
type reqLoop struct {
	*reqRig
	ackP, lastP wire.Packet
}

func newReqLoop(t testing.TB) *reqLoop {
	c := reqDefaults()
	c.mtu, c.inline = ibv.MTU1024, 0
	l := &reqLoop{reqRig: newReqRig(t, c)}
	for _, x := range []struct {
		p  *wire.Packet
		op wire.Opcode
	}{{&l.ackP, wire.Acknowledge}, {&l.lastP, wire.ReadRespOnly}} {
		p := x.p
		p.Info, p.Opcode, p.SrcGID, p.DstGID = x.op.Info(), x.op, l.qp.peerGID, l.qp.selfGID
		p.BTH = make([]byte, p.Info.HeaderLen)
		wire.BTHAt(p.BTH).Encode(&wire.BTHFields{Opcode: x.op, PKey: 0xFFFF})
		p.AETH().SetSyndrome(wire.SynACK(31))
	}
	l.lastP.Payload[0], l.lastP.NPayload, l.lastP.PayloadLen = make([]byte, 1024), 1, 1024
	return l
}

func (l *reqLoop) answer(p *wire.Packet, syn wire.Syndrome) {
	wire.BTHAt(p.BTH).SetPSN(l.qp.req.max.Add(-1))
	p.AETH().SetSyndrome(syn)
	l.qp.HandlePacket(l.now, p)
}

func (l *reqLoop) poll() {
	l.tx.Reset(l.batch)
	l.qp.Poll(l.now, l.tx)
}

func (l *reqLoop) drain() {
	n, _ := l.cq.Avail()
	l.cq.Release(n)
}

func TestReqDatapathDoesNotAllocate(t *testing.T) {
	l := newReqLoop(t)
	w := queue.SendWQE{Flags: ibv.SendSignaled, NumSGE: 1, Length: 3000, RemoteAddr: reqVA}
	one := []queue.SGE{l.sge(0, 3000)}
	read := queue.SendWQE{Opcode: ibv.WRRDMARead, Flags: ibv.SendSignaled, NumSGE: 1, Length: 1024, RemoteAddr: reqVA}
	into := []queue.SGE{l.sge(0, 1024)}
	for name, round := range map[string]func(){
		"send, ack": func() {
			w.Opcode = ibv.WRSend
			l.post(w, one...)
			l.poll()
			l.answer(&l.ackP, wire.SynACK(31))
		},
		"write, sequence NAK": func() {
			w.Opcode = ibv.WRRDMAWrite
			l.post(w, one...)
			l.poll()
			l.answer(&l.ackP, wire.NakPSNSeq)
			l.poll()
			l.answer(&l.ackP, wire.SynACK(31))
		},
		"send, RNR NAK": func() {
			w.Opcode = ibv.WRSend
			l.post(w, one...)
			l.poll()
			l.answer(&l.ackP, wire.SynRNR(1))
			l.pass(20 * time.Microsecond)
			l.poll()
			l.answer(&l.ackP, wire.SynACK(31))
		},
		"read": func() {
			l.post(read, into...)
			l.poll()
			l.answer(&l.lastP, wire.SynACK(31))
		},
		"timeout": func() {
			l.post(read, into...)
			l.poll()
			l.pass(reqTimeout)
			l.poll()
			l.answer(&l.lastP, wire.SynACK(31))
		},
	} {
		before := l.id
		n := testing.AllocsPerRun(100, func() { round(); l.drain() })
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		if l.qp.req.una != l.qp.req.max || l.id == before {
			t.Errorf("%s: the round is not complete", name)
		}
	}
	l.inState(ibv.QPStateRTS)
}

func BenchmarkRequesterSend(b *testing.B) {
	l := newReqLoop(b)
	w := queue.SendWQE{Opcode: ibv.WRSend, Flags: ibv.SendSignaled, NumSGE: 1, Length: 64}
	one := []queue.SGE{l.sge(0, 64)}
	for b.Loop() {
		for range 32 {
			l.post(w, one...)
		}
		l.poll()
		l.answer(&l.ackP, wire.SynACK(31))
		l.drain()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/32, "ns/message")
}

func BenchmarkRequesterWrite(b *testing.B) {
	l := newReqLoop(b)
	w := queue.SendWQE{Opcode: ibv.WRRDMAWrite, Flags: ibv.SendSignaled, NumSGE: 1, Length: 64 * 1024}
	one := []queue.SGE{l.sge(0, 64*1024)}
	for b.Loop() {
		l.post(w, one...)
		l.poll()
		l.answer(&l.ackP, wire.SynACK(31))
		l.drain()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/packet")
}

func BenchmarkRequesterRead(b *testing.B) {
	l := newReqLoop(b)
	w := queue.SendWQE{Opcode: ibv.WRRDMARead, Flags: ibv.SendSignaled, NumSGE: 1, Length: 1024}
	one := []queue.SGE{l.sge(0, 1024)}
	b.SetBytes(1024)
	for b.Loop() {
		l.post(w, one...)
		l.poll()
		l.answer(&l.lastP, wire.SynACK(31))
		l.drain()
	}
}
