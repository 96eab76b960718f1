package datapath

import (
	"sync"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath/xsk/xsktest"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// congestedLink marks frames with payload whose sender takes marks, and remembers
// what went by.
type congestedLink struct {
	t    testing.TB
	mu   sync.Mutex
	tos  map[uint8]int // of frames that are no CNPs
	cnps []wire.Packet
}

func (c *congestedLink) hook(frame []byte) xsktest.Action {
	c.mu.Lock()
	defer c.mu.Unlock()
	var p wire.Packet
	if r := p.ParseReadOnly(frame); r != wire.Accept {
		c.t.Errorf("a frame went by that is refused: %v", r)
		return xsktest.Drop
	}
	if ip := wire.IPv4At(p.IP); !p.IPv6 && ip.Checksum() != ip.ComputeChecksum() {
		c.t.Error("an IPv4 header has a wrong checksum")
	}
	if p.Opcode == wire.CNP {
		c.cnps = append(c.cnps, p)
		return xsktest.Deliver
	}
	c.tos[p.TOS]++
	if p.ECN() == ect0 && p.PayloadLen > 0 {
		setTOS(frame, wire.EthernetLen, p.IPv6, p.TOS|wire.CE)
	}
	return xsktest.Deliver
}

// A marked packet comes back as a CNP, which slows a queue pair that reacts.
func TestCongestion(t *testing.T) {
	c := &congestedLink{t: t, tos: map[uint8]int{}}
	r := newRig(t, rigOptions{hook: c.hook, opts: Options{Congestion: verbs.CongestionDCQCN, LineRate: 100_000_000}})
	p := r.pair(verbstest.Options{})
	begin := time.Now()
	for range 8 {
		if err := p.Write(64<<10, false); err != nil {
			t.Fatal(err)
		}
	}
	// 512 KiB at the line's 100 Mbit/s take 42 ms, and longer at less.
	if took := time.Since(begin); took < 40*time.Millisecond {
		t.Errorf("it took %v: the rate has no effect", took)
	}
	sent, handled := counterOf(t, r.b, "np_cnp_sent"), counterOf(t, r.a, "rp_cnp_handled")
	if sent == 0 || handled != sent || counterOf(t, r.b, "np_ecn_marked_roce_packets") < sent {
		t.Errorf("%d CNPs sent, %d handled", sent, handled)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.tos) != 1 || c.tos[ect0] == 0 {
		t.Errorf("frames by TOS: %v, want all to be %d", c.tos, ect0)
	}
	for i := range c.cnps {
		n := &c.cnps[i]
		if n.TOS != cnpTOS || n.SrcMAC != macB || n.DstMAC != macA || uint64(len(c.cnps)) != sent {
			t.Errorf("CNP %d of %d has TOS %#x, from %x to %x", i, len(c.cnps), n.TOS, n.SrcMAC, n.DstMAC)
		}
	}
}

// Without congestion control packets take no marks; a queue pair may differ from
// its device either way.
func TestCongestionIsChosen(t *testing.T) {
	for _, tt := range []struct {
		name   string
		device verbs.Congestion
		qp     ibv.Congestion
		want   bool
	}{
		{"default", verbs.CongestionDefault, ibv.CongestionDefault, false},
		{"device", verbs.CongestionDCQCN, ibv.CongestionDefault, true},
		{"queue pair", verbs.CongestionNone, ibv.CongestionDCQCN, true},
		{"not this queue pair", verbs.CongestionDCQCN, ibv.CongestionNone, false},
	} {
		r := newRig(t, rigOptions{opts: Options{Congestion: tt.device}})
		in := initOf(t, r.a)
		in.Congestion = tt.qp
		pq, err := r.a.CreateQP(in)
		must(t, err)
		q := pq.(*qp)
		must(t, q.Modify(t.Context(), &ibv.QPAttr{State: ibv.QPStateInit, Port: 1}, ibv.QPAttrState|ibv.QPAttrPKeyIndex|ibv.QPAttrPort|ibv.QPAttrAccessFlags))
		must(t, q.Modify(t.Context(), &ibv.QPAttr{State: ibv.QPStateRTR, PathMTU: ibv.MTU1024, DestQPN: 17, AV: ibv.AddressVector{DGID: gidOf(addrB), TrafficClass: 0x69}},
			ibv.QPAttrState|ibv.QPAttrAV|ibv.QPAttrPathMTU|ibv.QPAttrDestQPN|ibv.QPAttrRQPSN|ibv.QPAttrMaxDestRDAtomic|ibv.QPAttrMinRNRTimer))
		tos := uint8(0x69)
		if tt.want {
			tos = 0x6A
		}
		if got := q.route.fields.TOS; got != tos || (q.cfg.DCQCN != nil) != tt.want {
			t.Errorf("%s: TOS %#x, parameters %v; want %#x", tt.name, got, q.cfg.DCQCN, tos)
		}
	}
	r := newRig(t, rigOptions{})
	in := initOf(t, r.a)
	in.Congestion = 3
	if _, err := r.a.CreateQP(in); err == nil {
		t.Error("a queue pair with unknown congestion control was made")
	}
}

// The rate of the line is what is configured, or what the link says.
func TestCongestionLineRate(t *testing.T) {
	r := newRig(t, rigOptions{})
	rate := func() int64 { return r.a.dcqcn(ibv.CongestionDCQCN).LineRate }
	if got := rate(); got != unknownRate {
		t.Errorf("%d bit/s for a link that tells nothing", got)
	}
	first := r.a.dcqcn(ibv.CongestionDCQCN)
	if first != r.a.dcqcn(ibv.CongestionDCQCN) {
		t.Error("parameters are made anew for each queue pair")
	}
	r.a.mu.Lock()
	r.a.link.speed = 25_000
	r.a.mu.Unlock()
	if got := rate(); got != 25_000*megabit {
		t.Errorf("%d bit/s for a link of 25 Gbit/s", got)
	}
	r.a.opts.LineRate = 5 * megabit
	if got := rate(); got != 5*megabit {
		t.Errorf("%d bit/s, configured are 5 Mbit/s", got)
	}
}
