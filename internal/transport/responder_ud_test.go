package transport

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// IP headers as a receive buffer shows them; the engine does not look inside.
var (
	udIPv4 = respFill(0x45, wire.IPv4Len)
	udIPv6 = respFill(0x60, wire.IPv6Len)
)

func newUDRig(t *testing.T) *respRig {
	t.Helper()
	return newRespRig(t, respOn(ibv.QPTypeUD))
}

// datagram is a SEND over IPv4 with any PSN.
func datagram(p psn.PSN, data []byte) respReq {
	return respPkt(wire.UD|wire.SendOnly, p).deth(respQKey).under(udIPv4).with(data)
}

// udGRH is the area before the payload.
func udGRH(ip []byte) []byte { return append(make([]byte, grhLen-len(ip)), ip...) }

func udRecv(wrid uint64, payload int) queue.CQE {
	return queue.CQE{WRID: wrid, ByteLen: uint32(grhLen + payload), Opcode: ibv.WCRecv, Flags: ibv.WCFlagGRH, SrcQP: 0x33}
}

func TestUDReceives(t *testing.T) {
	for _, ip := range [][]byte{udIPv4, udIPv6} {
		for _, n := range []int{0, 1, 3, 4, 255, respMTU} {
			t.Run(fmt.Sprintf("%d bytes under %d", n, len(ip)), func(t *testing.T) {
				r := newUDRig(t)
				for i := range 40 + n {
					r.mem[64+i] = 0xEE // all of the area is written
				}
				r.post(11, 64, grhLen+n)
				r.arrive(datagram(0, respFill(1, n)).under(ip).cut(n/3, n/2))
				r.expectCompletions(udRecv(11, n))
				r.expectMemory(64, append(udGRH(ip), respFill(1, n)...))
				r.expectMemory(64+grhLen+n, []byte{0})
				r.expectCount(RcvdBytes, uint64(n))
				r.expectCount(RDMARecvs, 1)
				r.expectEvents() // there is no connection to be established
				r.quiet()
			})
		}
	}
}

// The area and the payload are one run of bytes over all entries.
func TestUDScatters(t *testing.T) {
	r := newUDRig(t)
	r.post(1, 0, 7, 100, 0, 200, 34, 300, 1, 400, 100)
	data := respFill(3, 50)
	r.arrive(datagram(9, data).under(udIPv6).cut(1, 2))
	r.expectCompletions(udRecv(1, 50))
	got := bytes.Join([][]byte{r.mem[0:7], r.mem[200:234], r.mem[300:301], r.mem[400:448]}, nil)
	if want := append(bytes.Clone(udIPv6), data...); !bytes.Equal(got, want) {
		t.Errorf("placed % x, want % x", got, want)
	}
}

// An IPv4 packet leaves nothing of an earlier one.
func TestUDAreasDoNotMix(t *testing.T) {
	r := newUDRig(t)
	for i, ip := range [][]byte{udIPv6, udIPv4, udIPv6, udIPv4} {
		r.post(uint64(i), i*64, 64)
		r.arrive(datagram(0, nil).under(ip))
		r.expectMemory(i*64, udGRH(ip))
		r.expectCompletions(udRecv(uint64(i), 0))
	}
}

func TestUDImmediateAndSolicited(t *testing.T) {
	r := newUDRig(t)
	r.cq.Ring().Arm().Store(queue.ArmSolicited)
	r.post(1, 0, 1024)
	r.post(2, 0, 1024)
	p := respPkt(wire.UD|wire.SendOnlyImm, 5).deth(respQKey).word(0x01020304).under(udIPv4).with([]byte("hi"))
	want := udRecv(1, 2)
	want.Flags |= ibv.WCFlagWithImm
	want.Imm = 0x01020304
	r.arrive(p)
	r.expectCompletions(want)
	if len(r.env.Woken) != 0 {
		t.Error("woken by what was not solicited")
	}
	r.arrive(p.solicited())
	want.WRID = 2
	r.expectCompletions(want)
	if len(r.env.Woken) != 1 {
		t.Error("not woken by what was solicited")
	}
}

// There is no order, no peer and nobody to answer.
func TestUDTakesAnything(t *testing.T) {
	tests := []struct {
		name string
		p    respReq
	}{
		{"PSN far ahead", datagram(0x800000, []byte("x"))},
		{"PSN far behind", datagram(1, []byte("x"))},
		{"any source", datagram(1, []byte("x")).source(ibv.GID{15: 99})},
		{"asks for an ACK", datagram(1, []byte("x")).asks()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newUDRig(t)
			r.post(1, 0, 1024)
			r.post(2, 0, 1024)
			r.arrive(tt.p, tt.p) // nor is there a duplicate
			r.expectCompletions(udRecv(1, 1), udRecv(2, 1))
			r.expectCount(DuplicateRequest, 0)
			r.expectCount(OutOfSeqRequest, 0)
			r.quiet()
		})
	}
}

func TestUDMulticast(t *testing.T) {
	r := newUDRig(t)
	r.post(1, 0, 1024)
	p := datagram(1, []byte("x")).packet()
	wire.BTHAt(p.BTH).SetDestQP(wire.MulticastQP)
	r.q.HandlePacket(r.now, p)
	r.expectCompletions(udRecv(1, 1))
}

// A datagram that is dropped leaves the receive work request to the next one.
func TestUDDrops(t *testing.T) {
	tests := []struct {
		name    string
		p       respReq
		counter Counter
	}{
		{"wrong Q_Key", respPkt(wire.UD|wire.SendOnly, 1).deth(respQKey + 1).with([]byte("x")), DropQKey},
		{"Q_Key of QP1", respPkt(wire.UD|wire.SendOnly, 1).deth(ibv.GSIQKey).with([]byte("x")), DropQKey},
		{"one byte too long for the buffer", datagram(1, respFill(1, 101)), DropBufferSize},
		{"longer than the MTU", datagram(1, respFill(1, respMTU+1)), DropLength},
		{"wrong pad", datagram(1, respFill(1, 5)).padded(2), DropLength},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newUDRig(t)
			r.post(1, 0, grhLen+100)
			r.arrive(tt.p, tt.p)
			r.expectCompletions()
			r.expectCount(tt.counter, 2)
			r.expectCount(RcvdBytes, 0)
			r.expectMemory(0, make([]byte, 300))
			r.arrive(datagram(2, respFill(1, 100)))
			r.expectCompletions(udRecv(1, 100))
			r.expectMemory(0, append(udGRH(udIPv4), respFill(1, 100)...))
			r.quiet()
		})
	}
}

func TestUDBufferShorterThanTheArea(t *testing.T) {
	r := newUDRig(t)
	r.post(1, 0, grhLen-1)
	r.arrive(datagram(1, nil))
	r.expectCount(DropBufferSize, 1)
	r.fail()
	r.expectCompletions(respFailed(1, ibv.WCWRFlushErr))
}

func TestUDNoReceive(t *testing.T) {
	r := newUDRig(t)
	r.arrive(datagram(1, []byte("x")))
	r.expectCount(DropNoReceive, 1)
	r.post(1, 0, 100)
	r.expectCompletions()
	r.arrive(datagram(1, []byte("y")))
	r.expectCompletions(udRecv(1, 1))
	r.quiet()
}

func TestUDPKey(t *testing.T) {
	for pkey, ok := range map[uint16]bool{0xFFFF: true, 0x7FFF: true, 0xFFFE: false, 0: false} {
		r := newUDRig(t)
		r.post(1, 0, 100)
		p := datagram(1, nil).packet()
		wire.BTHAt(p.BTH).SetPKey(pkey)
		r.q.HandlePacket(r.now, p)
		if n := len(r.completions()); (n == 1) != ok || (r.env.Counters[DropPKey] == 0) != ok {
			t.Errorf("P_Key %#x: %d completions", pkey, n)
		}
	}
}

// QP1 has the well-known Q_Key whatever was set.
func TestGSIQKey(t *testing.T) {
	r := newRespRig(t, respOn(ibv.QPTypeGSI))
	r.post(1, 0, 100)
	r.arrive(datagram(1, nil))
	r.expectCount(DropQKey, 1)
	r.arrive(respPkt(wire.UD|wire.SendOnly, 1).deth(0x80010000).under(udIPv4))
	r.expectCompletions(udRecv(1, 0))
}

// The Q_Key may change while the queue pair works.
func TestUDQKeyChanges(t *testing.T) {
	r := newUDRig(t)
	r.post(1, 0, 100)
	r.q.state = ibv.QPStateRTS
	r.modify(ibv.QPAttr{QKey: 5}, ibv.QPAttrQKey)
	r.arrive(datagram(1, nil))
	r.expectCount(DropQKey, 1)
	r.arrive(respPkt(wire.UD|wire.SendOnly, 1).deth(5).under(udIPv4))
	r.expectCompletions(udRecv(1, 0))
}

func TestUDStates(t *testing.T) {
	for _, s := range allQPStates {
		r := newUDRig(t)
		r.post(1, 0, 100)
		r.q.state = s
		r.arrive(datagram(1, nil))
		works := s == ibv.QPStateRTR || s == ibv.QPStateRTS || s == ibv.QPStateSQD || s == ibv.QPStateSQE
		if n := len(r.completions()); (n == 1) != works || (r.env.Counters[DropState] == 0) != works {
			t.Errorf("%v: %d completions", s, n)
		}
	}
}

func TestUDLocalError(t *testing.T) {
	r := newUDRig(t)
	r.postSGE(1, queue.SGE{Addr: r.at(0), Length: 40, LKey: r.mr.LKey()}, queue.SGE{Addr: r.at(respSize), Length: 8, LKey: r.mr.LKey()})
	r.post(2, 0, 100)
	r.arrive(datagram(1, []byte("x")))
	r.expectCompletions(respFailed(1, ibv.WCLocProtErr), respFailed(2, ibv.WCWRFlushErr))
	r.expectEvents(ibv.EventQPFatal)
	r.expectState(ibv.QPStateErr)
	r.expectMemory(0, make([]byte, 40))
}
