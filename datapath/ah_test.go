package datapath

import (
	"errors"
	"net/netip"
	"sync"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// domain is a protection domain of a device.
func domain(t *testing.T, d *Device) uint32 {
	t.Helper()
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	return pd
}

func handleOf(t *testing.T, d *Device, pd uint32, av ibv.AddressVector) uint32 {
	t.Helper()
	h, err := d.CreateAH(t.Context(), pd, &av)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestCreateAHRefuses(t *testing.T) {
	r := newRig(t, rigOptions{})
	pd := domain(t, r.a)
	good := ibv.AddressVector{DGID: gidOf(addrB)}
	for _, tt := range []struct {
		name   string
		change func(*ibv.AddressVector)
		want   error
	}{
		{"GID index of nothing", func(a *ibv.AddressVector) { a.SGIDIndex = 3 }, ErrNoGID},
		{"another family", func(a *ibv.AddressVector) { a.DGID = gidOf(netip.MustParseAddr("fd00::2")) }, ErrInvalid},
		{"no peer", func(a *ibv.AddressVector) { a.DGID = ibv.GID{} }, ErrInvalid},
		{"a group of this host only", func(a *ibv.AddressVector) { a.DGID = gidOf(netip.MustParseAddr("ff01::1")) }, ErrInvalid},
		{"a group of another family", func(a *ibv.AddressVector) { a.DGID = gidOf(netip.MustParseAddr("ff02::1")) }, ErrInvalid},
		{"service level", func(a *ibv.AddressVector) { a.SL = 8 }, transport.ErrAttrValue},
		{"flow label", func(a *ibv.AddressVector) { a.FlowLabel = 1 << 20 }, transport.ErrAttrValue},
		{"port", func(a *ibv.AddressVector) { a.Port = 2 }, transport.ErrAttrValue},
		{"a peer that does not answer", func(a *ibv.AddressVector) { a.DGID = gidOf(netip.MustParseAddr("192.0.2.9")) }, ErrNoNeighbour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			av := good
			tt.change(&av)
			if _, err := r.a.CreateAH(t.Context(), pd, &av); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
	if _, err := r.a.CreateAH(t.Context(), pd, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("no address vector: %v", err)
	}
	if _, err := r.a.CreateAH(t.Context(), pd+77, &good); !errors.Is(err, ErrInvalid) {
		t.Errorf("unknown domain: %v", err)
	}
	if err := r.a.DestroyAH(1234); !errors.Is(err, ErrInvalid) {
		t.Errorf("unknown handle: %v", err)
	}
	h := handleOf(t, r.a, pd, good)
	if err := r.a.DeallocPD(pd); !errors.Is(err, ErrBusy) {
		t.Errorf("domain with a handle: %v", err)
	}
	if err := r.a.DestroyAH(h); err != nil {
		t.Error(err)
	}
	if err := r.a.DestroyAH(h); !errors.Is(err, ErrInvalid) {
		t.Errorf("destroyed twice: %v", err)
	}
	if err := r.a.DeallocPD(pd); err != nil {
		t.Errorf("something was left in the domain: %v", err)
	}
}

// TestAHNumbers: a handle is not given out again soon, and never while it is in
// use, wherever the counting is.
func TestAHNumbers(t *testing.T) {
	r := newRig(t, rigOptions{})
	pd := domain(t, r.a)
	av := ibv.AddressVector{DGID: gidOf(addrB)}
	first := handleOf(t, r.a, pd, av)
	if err := r.a.DestroyAH(first); err != nil {
		t.Fatal(err)
	}
	second := handleOf(t, r.a, pd, av)
	if second == first || r.a.addresses.get(first) != nil {
		t.Errorf("handle %#x came again, or still leads somewhere", first)
	}
	r.a.lastAH = second + maxAH - 1 // its place is taken
	third := handleOf(t, r.a, pd, av)
	if third != second+maxAH+1 {
		t.Errorf("handle %#x, want %#x", third, second+maxAH+1)
	}
	if a := r.a.addresses.get(second); a == nil || a.handle != second {
		t.Errorf("%#x leads to %+v", second, a)
	}
	r.a.lastAH = 1<<32 - 1
	if h := handleOf(t, r.a, pd, av); h == 0 {
		t.Error("0 was given out")
	}
}

func TestAHLimit(t *testing.T) {
	r := newRig(t, rigOptions{})
	pd := domain(t, r.a)
	r.a.mu.Lock()
	for i := range uint32(maxAH) {
		r.a.handles[1<<20+i] = nil
	}
	r.a.mu.Unlock()
	if _, err := r.a.CreateAH(t.Context(), pd, &ibv.AddressVector{DGID: gidOf(addrB)}); !errors.Is(err, ErrLimit) {
		t.Errorf("error %v", err)
	}
	clear(r.a.handles)
	if err := r.a.DeallocPD(pd); err != nil {
		t.Error(err)
	}
}

// TestHandleFaults: a work request whose handle leads nowhere fails, the others
// are flushed, and receiving goes on.
func TestHandleFaults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(a *address) *address
	}{
		{"destroyed", func(*address) *address { return nil }},
		{"of another domain", func(a *address) *address { b := *a; b.pd++; return &b }},
		{"another in its place", func(a *address) *address { b := *a; b.handle += maxAH; return &b }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			p := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
			bad, err := p.A.PD.CreateAH(&verbs.AddressVector{DGID: gidOf(addrB)})
			if err != nil {
				t.Fatal(err)
			}
			r.a.mu.Lock()
			h := r.a.lastAH
			r.a.addresses.put(h, tt.change(r.a.addresses.get(h)))
			r.a.mu.Unlock()
			wrs := make([]verbs.SendWR, 4)
			for i := range wrs {
				wrs[i] = p.Datagram(10)
				wrs[i].WRID, wrs[i].Flags = uint64(i), verbs.SendSignaled
			}
			wrs[2].AH = bad
			if n, err := p.A.QP.PostSendBatch(wrs); n != len(wrs) {
				t.Fatal(err)
			}
			for i, want := range []verbs.WCStatus{verbs.WCSuccess, verbs.WCSuccess, verbs.WCLocalQPOperation, verbs.WCFlushed} {
				if wc, err := p.A.Next(); err != nil || wc.WRID != uint64(i) || wc.Status != want {
					t.Errorf("completion %+v, %v; want %d, %v", wc, err, i, want)
				}
			}
			if n := counterOf(t, r.a, "address_fault"); n != 1 {
				t.Errorf("%d address faults", n)
			}
			if n := counterOf(t, r.a, "xsk_tx_frames"); n != 2 {
				t.Errorf("%d frames left, want 2", n)
			}
			if err := p.Reverse().Send(10, false); err != nil {
				t.Errorf("receiving afterwards: %v", err)
			}
			if err := bad.Destroy(); err != nil {
				t.Error(err)
			}
			r.checkMemory()
		})
	}
}

// TestDatagramPath: frames take the handle's headers; the source port is that of
// its flow label, or of the queue pair.
func TestDatagramPath(t *testing.T) {
	conformance.Rule(t, "4.2-4")
	s := newSeen()
	r := newRig(t, rigOptions{hook: s.hook})
	p := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	if err := p.Send(10, false); err != nil {
		t.Fatal(err)
	}
	if got := s.from(macA); got.UDPSrcPort != wire.PortFromQPN(p.A.QP.Num()) || got.TTL != 64 || got.DstMAC != macB || got.SrcGID != gidOf(addrA) {
		t.Errorf("frame %+v", got)
	}
	ah, err := p.A.PD.CreateAH(&verbs.AddressVector{DGID: gidOf(addrB), FlowLabel: 0x5BA59, TrafficClass: 0x2a, HopLimit: 9})
	if err != nil {
		t.Fatal(err)
	}
	first := p.A.AH
	p.A.AH = ah
	if err := errors.Join(p.Send(10, true), first.Destroy()); err != nil {
		t.Fatal(err)
	}
	if got := s.from(macA); got.UDPSrcPort != 0xFA4F || got.TOS != 0x2a || got.TTL != 9 {
		t.Errorf("frame %+v", got)
	}
}

// TestHandlesFollowNeighbours: handles learn new link-layer addresses, of the next
// hop and of the interface, as connections do.
func TestHandlesFollowNeighbours(t *testing.T) {
	s := newSeen()
	r := newRig(t, rigOptions{hook: s.hook})
	p := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	self := verbstest.UDPair(t, r.ca, r.ca, verbstest.Options{})
	moved, own := [6]byte{2, 9, 9, 9, 9, 9}, [6]byte{2, 1, 1, 1, 1, 1}
	r.a.neighbourChanged(1, netip.MustParseAddr("192.0.2.77"), moved) // somebody else
	if err := p.Send(10, false); err != nil || s.to(moved) != 0 {
		t.Fatalf("%v, %d frames to a stranger", err, s.to(moved))
	}
	r.a.neighbourChanged(1, addrB, moved)
	link := r.a.link
	link.mac = own
	r.a.setLink(link)
	if err := errors.Join(p.Send(10, false), self.Send(10, false)); err != nil {
		t.Fatal(err)
	}
	if got := s.from(own); s.to(moved) == 0 || got.DstMAC != moved {
		t.Errorf("frame %+v", got)
	}
}

// TestHandlesComeAndGo: handles are made and destroyed while others are in use.
func TestHandlesComeAndGo(t *testing.T) {
	r := newRig(t, rigOptions{queues: 2})
	p := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			ah, err := p.A.PD.CreateAH(&verbs.AddressVector{DGID: gidOf(addrB)})
			if err == nil {
				err = ah.Destroy()
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range 300 {
		r.a.neighbourChanged(1, addrB, [6]byte{2, 0, 0, 0, 0, byte(i)})
		if err := p.Send(i, false); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	wg.Wait()
}

func TestAHAfterClose(t *testing.T) {
	r := newRig(t, rigOptions{})
	pd := domain(t, r.a)
	h := handleOf(t, r.a, pd, ibv.AddressVector{DGID: gidOf(addrB)})
	if err := r.ca.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.a.DestroyAH(h); err != nil {
		t.Errorf("destroy: %v", err)
	}
	if _, err := r.a.CreateAH(t.Context(), pd, &ibv.AddressVector{DGID: gidOf(addrB)}); !errors.Is(err, ErrClosed) {
		t.Errorf("create: %v", err)
	}
	if a, err := r.b.QueryDevice(); err != nil || a.MaxAH != maxAH {
		t.Errorf("attributes %+v, %v", a, err)
	}
}
