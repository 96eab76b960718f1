package datapath

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// nextEvent waits for an event of a device.
func nextEvent(t *testing.T, d *Device) verbs.ProviderEvent {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	e, err := d.NextEvent(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func noEvent(t *testing.T, d *Device) {
	t.Helper()
	if e, ok := d.root.events.main.take(); ok {
		t.Errorf("event %v", e.Type)
	}
}

func TestLinkEvents(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := r.pair(verbstest.Options{})
	if err := p.A.Recv(7, 0, 8); err != nil {
		t.Fatal(err)
	}
	r.a.root.events.drain()
	link := r.a.link
	r.a.setLink(link)
	noEvent(t, r.a)
	for _, step := range []struct {
		name   string
		change func()
		want   ibv.EventType
		state  ibv.PortState
	}{
		{"down", func() { link.running = false }, ibv.EventPortErr, ibv.PortDown},
		{"up", func() { link.running = true }, ibv.EventPortActive, ibv.PortActive},
		{"removed", func() { link.running, link.gone = false, true }, ibv.EventDeviceFatal, ibv.PortDown},
	} {
		step.change()
		r.a.setLink(link)
		if e := nextEvent(t, r.a); e.Type != step.want || e.Port != 1 {
			t.Errorf("%s: event %v of port %d, want %v", step.name, e.Type, e.Port, step.want)
		}
		if p, err := r.a.QueryPort(); err != nil || p.State != step.state {
			t.Errorf("%s: port %v, %v", step.name, p.State, err)
		}
		r.a.setLink(link)
		noEvent(t, r.a)
	}
	if wc, err := p.A.Next(); err != nil || wc.WRID != 7 || wc.Status != verbs.WCFlushed {
		t.Errorf("with the interface gone: completion %+v, %v", wc, err)
	}
	if n := counterOf(t, r.a, "link_downed"); n != 1 {
		t.Errorf("link_downed is %d", n)
	}
}

func TestAddressEvents(t *testing.T) {
	r := newRig(t, rigOptions{})
	second := netip.MustParseAddr("198.51.100.1")
	set := func(now ...netip.Addr) {
		t.Helper()
		if err := r.a.setAddresses(now); err != nil {
			t.Fatal(err)
		}
	}
	set(addrA)
	noEvent(t, r.a)
	set(addrA, second)
	if e := nextEvent(t, r.a); e.Type != ibv.EventGIDChange {
		t.Errorf("event %v", e.Type)
	}
	if !r.steered[0].addrs[addrA] || !r.steered[0].addrs[second] {
		t.Errorf("steered: %v", r.steered[0].addrs)
	}
	set(second)
	if e := nextEvent(t, r.a); e.Type != ibv.EventGIDChange {
		t.Errorf("event %v", e.Type)
	}
	if r.steered[0].addrs[addrA] {
		t.Error("an address that is gone is still steered")
	}
	list, err := r.a.GIDs()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Valid || !list[1].Valid || list[1].GID != gidOf(second) || list[1].Index != 1 {
		t.Errorf("GIDs %+v", list)
	}
	r.steered[0].err = errors.New("map full")
	if err := r.a.setAddresses([]netip.Addr{addrA}); !errors.Is(err, r.steered[0].err) {
		t.Errorf("error %v", err)
	}
	r.steered[0].err = nil
	set(addrA)
	if !r.steered[0].addrs[addrA] {
		t.Error("what could not be steered is not tried again")
	}
}

// TestLinkDownLosesNothing: what is posted while the interface is down completes
// when it is up again.
func TestLinkDownLosesNothing(t *testing.T) {
	for _, tell := range []bool{true, false} { // whether the device is told, or finds out
		r := newRig(t, rigOptions{mtu: 1500, sleepDeep: true})
		p := r.pair(verbstest.Options{Timeout: 14, Retry: 7, Depth: 256})
		if err := p.Write(10, false); err != nil {
			t.Fatal(err)
		}
		down := func(on bool) {
			r.ports[0][0].SetDown(on)
			if tell {
				link := r.a.link
				link.running = !on
				r.a.setLink(link)
			}
		}
		down(true)
		const posts = 100
		for i := range uint64(posts) {
			if err := p.A.Post(verbs.SendWR{WRID: i, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 3000)},
				RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Millisecond)
		if n := counterOf(t, r.a, "kick_errors"); n == 0 || n > 100 {
			t.Errorf("%d kicks failed in 30 ms", n)
		}
		down(false)
		for i := range uint64(posts) {
			if _, err := p.A.Done(i, verbs.WCRDMAWrite); err != nil {
				t.Fatal(err)
			}
		}
		r.checkMemory()
	}
}

func TestEventQueueIsBounded(t *testing.T) {
	r := newRig(t, rigOptions{})
	for range maxEvents + 5 {
		r.a.reportPort(ibv.EventPortActive)
	}
	if n := counterOf(t, r.a, "async_events_lost"); n != 5 {
		t.Errorf("%d events lost, want 5", n)
	}
	for range maxEvents {
		nextEvent(t, r.a)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := r.a.NextEvent(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// TestQueuePairEvents: an event of the engine names the queue pair.
func TestQueuePairEvents(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := r.pair(verbstest.Options{})
	err := p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)},
		RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey() ^ 0x100}) // not a key
	if err != nil {
		t.Fatal(err)
	}
	if wc, err := p.A.Next(); err != nil || wc.Status != verbs.WCRemoteAccess {
		t.Errorf("completion %+v, %v", wc, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for {
		e, err := r.cb.NextEvent(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == verbs.EventQPAccessErr {
			if e.QP != p.B.QP {
				t.Error("the event is of another queue pair")
			}
			return
		}
	}
}

func TestCompletionQueueOverflow(t *testing.T) {
	r := newRig(t, rigOptions{})
	small, err := r.ca.CreateCQ(2)
	if err != nil {
		t.Fatal(err)
	}
	p := r.pair(verbstest.Options{CQ: [2]*verbs.CQ{small, nil}})
	for i := range uint64(8) {
		if err := p.A.Post(verbs.SendWR{WRID: i, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)},
			RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}); err != nil {
			t.Fatal(err)
		}
	}
	types := map[ibv.EventType]bool{}
	for !types[ibv.EventCQErr] || !types[ibv.EventQPFatal] {
		types[nextEvent(t, r.a).Type] = true
	}
	// What fitted is there, nothing else, and the queue pair is of no more use.
	var wcs [8]verbs.WC
	if n := small.Poll(wcs[:]); n != 2 || wcs[0].WRID != 0 || wcs[1].WRID != 1 {
		t.Errorf("%d completions: %+v", n, wcs[:n])
	}
	if a, err := p.A.QP.Query(); err != nil || a.State != verbs.QPStateErr {
		t.Errorf("the queue pair is in %v, %v", a.State, err)
	}
	if a, err := small.Query(); err != nil || !a.Overflowed {
		t.Errorf("%+v, %v", a, err)
	}
	if err := small.Resize(16); !errors.Is(err, verbs.ErrOverflow) {
		t.Errorf("resize: %v", err)
	}
}
