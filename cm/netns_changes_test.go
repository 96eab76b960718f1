package cm_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/test/netns"
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
	if e := b.next(cm.EventDeviceRemoval); e.ID != id {
		t.Error("another id's event")
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
