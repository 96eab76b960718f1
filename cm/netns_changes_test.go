package cm_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// linkOf is the interface of a host, to be changed.
func linkOf(t *testing.T, e *netns.End) (*netlink.Handle, netlink.Link) {
	t.Helper()
	h, err := e.NS.Handle()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	link, err := h.LinkByName(e.Ifname)
	if err != nil {
		t.Fatal(err)
	}
	return h, link
}

// TestNetnsInterfaceRemoved: connections, listeners and ids learn that the interface is
// gone, and can be closed.
func TestNetnsInterfaceRemoved(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{})
	a, b := openIn(t, hosts.A), newStation(t, openIn(t, hosts.B))
	l := listen(t, b.dev, ":7471", nil)
	id := b.id(cm.PortSpaceUDP)
	b.ok(id.BindAddr(netip.AddrPortFrom(hosts.B.IPv4, 7472)))
	accepted := make(chan *cm.Conn, 1)
	go func() {
		c, err := l.Accept(within(t))
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	active, err := cm.Dial(within(t), a, hosts.B.IPv4.String()+":7471", nil)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, active)
	passive := closeLater(t, <-accepted)
	h, link := linkOf(t, hosts.B)
	if err := h.LinkDel(link); err != nil { // with it goes the other end
		t.Fatal(err)
	}
	for name, c := range map[string]*cm.Conn{"active": active, "passive": passive} {
		select {
		case <-c.Done():
		case <-within(t).Done():
			t.Fatalf("the %s end is not told", name)
		}
		if err := c.Err(); !errors.Is(err, cm.ErrRemoved) {
			t.Errorf("%s end: %v", name, err)
		}
	}
	if _, err := l.Accept(within(t)); !errors.Is(err, cm.ErrRemoved) {
		t.Errorf("listener: %v", err)
	}
	// The address may go a moment before the interface.
	for typ := cm.EventAddrChange; typ != cm.EventDeviceRemoval; {
		e, err := b.ch.Next(within(t))
		if err != nil || e.ID != id || e.Type != cm.EventAddrChange && e.Type != cm.EventDeviceRemoval {
			t.Fatalf("event %+v, %v", e, err)
		}
		typ = e.Type
	}
	if _, err := cm.Dial(within(t), a, hosts.B.IPv4.String()+":7471", nil); err == nil {
		t.Error("connected through an interface that is gone")
	}
}

// TestNetnsAddressRemoved: the id whose address goes is told, others are not.
func TestNetnsAddressRemoved(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{})
	b := newStation(t, openIn(t, hosts.B))
	stays, goes := b.id(cm.PortSpaceTCP), b.id(cm.PortSpaceTCP)
	b.ok(stays.BindAddr(netip.AddrPortFrom(hosts.B.IPv6, 7471)))
	b.ok(goes.BindAddr(netip.AddrPortFrom(hosts.B.IPv4, 7471)))
	h, link := linkOf(t, hosts.B)
	addrs, err := h.AddrList(link, netlink.FAMILY_V4)
	if err != nil || len(addrs) != 1 {
		t.Fatal(addrs, err)
	}
	if err := h.AddrDel(link, &addrs[0]); err != nil {
		t.Fatal(err)
	}
	if e := b.next(cm.EventAddrChange); e.ID != goes {
		t.Error("another id's event")
	}
	b.ok(goes.Destroy())
	again := b.id(cm.PortSpaceTCP)
	if err := again.BindAddr(netip.AddrPortFrom(hosts.B.IPv4, 7471)); !errors.Is(err, cm.ErrNoSource) {
		t.Errorf("bound to an address that is gone: %v", err)
	}
}

// TestNetnsAddressRemovedAtOnce: ids learn of it when it happens, and the program's own
// reader of the device's events loses nothing to them.
func TestNetnsAddressRemovedAtOnce(t *testing.T) {
	const times, bound = 5, time.Second // for all of them together
	hosts := netns.PairForTest(t, netns.PairOptions{})
	b := newStation(t, openIn(t, hosts.B))
	h, link := linkOf(t, hosts.B)
	var took time.Duration
	for i := range times {
		own := netip.AddrFrom4([4]byte{198, 51, 100, byte(i + 1)})
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: own.AsSlice(), Mask: net.CIDRMask(24, 32)}}
		if err := h.AddrAdd(link, addr); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the address", func() bool { _, err := b.dev.GIDIndex(own); return err == nil })
		id := b.id(cm.PortSpaceTCP)
		b.ok(id.BindAddr(netip.AddrPortFrom(own, 7471)))
		began := time.Now()
		if err := h.AddrDel(link, addr); err != nil {
			t.Fatal(err)
		}
		if e := b.next(cm.EventAddrChange); e.ID != id {
			t.Error("another id's event")
		}
		took += time.Since(began)
		b.ok(id.Destroy())
		for range 2 { // it came and went
			if e, err := b.dev.NextEvent(within(t)); err != nil || e.Type != verbs.EventGIDChange {
				t.Errorf("the program's event: %v, %v", e.Type, err)
			}
		}
	}
	if took > bound {
		t.Errorf("%d removals took %v to be told, want %v at most", times, took, bound)
	}
}

// TestNetnsMTURaised: a request is judged by the MTU that the link has when it comes.
func TestNetnsMTURaised(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{MTU: 1500})
	a, b := openIn(t, hosts.A), openIn(t, hosts.B)
	l := listen(t, b, ":7471", nil)
	address := netip.AddrPortFrom(hosts.B.IPv4, 7471).String()
	dial := func(want verbs.MTU) {
		t.Helper()
		accepted := make(chan *cm.Conn, 1)
		go func() {
			c, err := l.Accept(within(t))
			if err != nil {
				t.Error(err)
			}
			accepted <- c
		}()
		c, err := cm.Dial(within(t), a, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, c)
		if p := <-accepted; p != nil {
			closeLater(t, p)
		}
		if q, err := c.QP().Query(); err != nil || q.PathMTU != want {
			t.Errorf("path MTU %v, %v; want %v", q.PathMTU, err, want)
		}
	}
	dial(verbs.MTU1024)
	for _, e := range []*netns.End{hosts.A, hosts.B} {
		h, link := linkOf(t, e)
		if err := h.LinkSetMTU(link, 4200); err != nil {
			t.Fatal(err)
		}
	}
	for _, dev := range []*verbs.Context{a, b} {
		waitFor(t, "the MTU", func() bool { p, err := dev.QueryPort(); return err == nil && p.ActiveMTU == verbs.MTU4096 })
	}
	dial(verbs.MTU4096)
}
