package datapath_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// onLink changes a host's interface through netlink.
func onLink(t *testing.T, e *netns.End, do func(h *netlink.Handle, l netlink.Link) error) {
	t.Helper()
	h, err := e.NS.Handle()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	l, err := h.LinkByName(e.Ifname)
	if err == nil {
		err = do(h, l)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func hostNet(a netip.Addr, bits int) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, a.BitLen())}}
}

// write posts a WRITE of n bytes from A to B.
func write(t *testing.T, p *verbstest.Pair, id uint64, n int) {
	t.Helper()
	err := p.A.Post(verbs.SendWR{
		WRID: id, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, n)},
		RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey(),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNetnsAddressRemoved takes the address of a connection away, and gives it
// back in time once and not again.
func TestNetnsAddressRemoved(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{NoIPv6: true, StaticNeighbors: true})
	a, b := openIn(t, hosts.A, nil), openIn(t, hosts.B, nil)
	p := verbstest.RCPair(t, a, b, verbstest.Options{Timeout: 15}) // 134 ms
	remove := func(h *netlink.Handle, l netlink.Link) error { return h.AddrDel(l, hostNet(hosts.A.IPv4, 24)) }
	add := func(h *netlink.Handle, l netlink.Link) error { return h.AddrAdd(l, hostNet(hosts.A.IPv4, 24)) }
	if err := p.Every(1, 3000); err != nil {
		t.Fatal(err)
	}
	onLink(t, hosts.A, remove)
	waitEvent(t, a, verbs.EventGIDChange)
	if gids, err := a.GIDs(); err != nil || len(gids) != 0 {
		t.Errorf("GIDs %v, %v", gids, err)
	}
	write(t, p, 5, 3000)
	waitFor(t, "tx_drop_no_address", func() bool { return counterOf(t, a, "tx_drop_no_address") > 0 })
	onLink(t, hosts.A, add)
	waitEvent(t, a, verbs.EventGIDChange)
	if _, err := p.A.Done(5, verbs.WCRDMAWrite); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Every(1, 3000), p.Reverse().Every(1, 3000)); err != nil {
		t.Fatal(err)
	}
	onLink(t, hosts.A, remove)
	waitEvent(t, a, verbs.EventGIDChange)
	write(t, p.Reverse(), 6, 10) // B learns it by time alone
	if wc, err := p.B.Next(); err != nil || wc.Status != verbs.WCRetryExceeded {
		t.Errorf("completion %+v, %v", wc, err)
	}
}

// TestNetnsMTULowered lowers the MTU of both ends below what a connection needs.
func TestNetnsMTULowered(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{MTU: 9000, NoIPv6: true})
	a, b := openIn(t, hosts.A, nil), openIn(t, hosts.B, nil)
	p := verbstest.RCPair(t, a, b, verbstest.Options{Timeout: 16}) // 268 ms
	set := func(mtu int, active verbs.MTU) {
		t.Helper()
		for _, e := range []*netns.End{hosts.A, hosts.B} {
			if err := e.SetMTU(mtu); err != nil {
				t.Fatal(err)
			}
		}
		for _, dev := range []*verbs.Context{a, b} {
			waitFor(t, "the MTU", func() bool {
				port, err := dev.QueryPort()
				return err == nil && port.ActiveMTU == active
			})
		}
	}
	set(1500, verbs.MTU1024)
	if err := p.Write(1000, true); err != nil {
		t.Fatal(err)
	}
	write(t, p, 5, 9000)
	waitFor(t, "tx_drop_too_long", func() bool { return counterOf(t, a, "tx_drop_too_long") > 0 })
	set(9000, verbs.MTU4096)
	if _, err := p.A.Done(5, verbs.WCRDMAWrite); err != nil {
		t.Fatal(err)
	}
	if err := p.Every(1, 100_000); err != nil {
		t.Fatal(err)
	}
	set(1500, verbs.MTU1024)
	fails := verbstest.RCPair(t, a, b, verbstest.Options{MTU: verbs.MTU1024})
	if err := fails.Every(1, 100_000); err != nil {
		t.Errorf("a connection made since: %v", err)
	}
}

// TestNetnsLinkStaysDown: requests fail after their retries, datagrams wait, and
// nothing hangs.
func TestNetnsLinkStaysDown(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{NoIPv6: true})
	a, b := openIn(t, hosts.A, nil), openIn(t, hosts.B, nil)
	rc := verbstest.RCPair(t, a, b, verbstest.Options{Timeout: 10, Depth: 512}) // 4 ms
	ud := verbstest.UDPair(t, a, b, verbstest.Options{})
	if err := hosts.A.SetUp(false); err != nil {
		t.Fatal(err)
	}
	waitEvent(t, a, verbs.EventPortErr)
	waitEvent(t, b, verbs.EventPortErr) // it has lost its carrier
	const many = 500                    // more than a transmit ring holds in packets
	for i := range uint64(many) {
		write(t, rc, i, 8000)
	}
	for i := range uint64(many) {
		want := verbs.WCFlushed
		if i == 0 {
			want = verbs.WCRetryExceeded
		}
		if wc, err := rc.A.Next(); err != nil || wc.Status != want || wc.WRID != i {
			t.Fatalf("completion %+v, %v; want %v of %d", wc, err, want, i)
		}
	}
	if err := ud.B.Recv(3, 0, 200); err != nil {
		t.Fatal(err)
	}
	if err := ud.A.Post(ud.Datagram(10)); err != nil {
		t.Fatal(err)
	}
	if err := hosts.A.SetUp(true); err != nil {
		t.Fatal(err)
	}
	waitEvent(t, a, verbs.EventPortActive)
	waitEvent(t, b, verbs.EventPortActive)
	if _, err := ud.A.Done(1, verbs.WCSend); err != nil {
		t.Error(err)
	}
	if err := verbstest.RCPair(t, a, b, verbstest.Options{}).Every(1, 5000); err != nil {
		t.Errorf("a connection made since: %v", err)
	}
}

// TestNetnsPeerLosesLink: the carrier goes because the other end is down; the
// connection goes on when it is back.
func TestNetnsPeerLosesLink(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{NoIPv6: true})
	a, b := openIn(t, hosts.A, nil), openIn(t, hosts.B, nil)
	p := verbstest.RCPair(t, a, b, verbstest.Options{Timeout: 16})
	if err := hosts.B.SetUp(false); err != nil {
		t.Fatal(err)
	}
	waitEvent(t, a, verbs.EventPortErr)
	for i := range uint64(20) {
		write(t, p, i, 3000)
	}
	time.Sleep(50 * time.Millisecond)
	if err := hosts.B.SetUp(true); err != nil {
		t.Fatal(err)
	}
	waitEvent(t, a, verbs.EventPortActive)
	for i := range uint64(20) {
		if _, err := p.A.Done(i, verbs.WCRDMAWrite); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Reverse().Every(1, 3000); err != nil {
		t.Error(err)
	}
}

// lastMACs are the link-layer addresses of the last RoCE frame of a capture that
// went to an address.
func lastMACs(c *netns.Capture, to netip.Addr) (src, dst net.HardwareAddr) {
	for _, f := range c.Frames() {
		var p wire.Packet
		if p.ParseReadOnly(f.Data) == wire.Accept && netip.AddrFrom16(p.DstGID).Unmap() == to {
			src, dst = p.SrcMAC[:], p.DstMAC[:]
		}
	}
	return src, dst
}

// TestNetnsMACChanges changes the link-layer addresses of both ends of a
// connection, which is there and goes on: frames carry the new ones.
func TestNetnsMACChanges(t *testing.T) {
	for _, family := range []string{"IPv4", "IPv6"} {
		t.Run(family, func(t *testing.T) {
			hosts := netns.PairForTest(t, netns.PairOptions{Bridge: true, NoIPv6: family == "IPv4", NoIPv4: family == "IPv6"})
			a, b := openIn(t, hosts.A, nil), openIn(t, hosts.B, nil)
			p := verbstest.RCPair(t, a, b, verbstest.Options{})
			tap := netns.CaptureForTest(t, hosts.Bridge, hosts.Taps[0])
			peer := netip.AddrFrom16(p.B.GID.GID).Unmap()
			if err := p.Every(1, 3000); err != nil {
				t.Fatal(err)
			}
			changed := net.HardwareAddr{2, 0xb, 0xb, 0xb, 0xb, 0xb}
			announce := "/proc/sys/net/ipv4/conf/" + hosts.B.Ifname + "/arp_notify"
			if family == "IPv6" {
				announce = "/proc/sys/net/ipv6/conf/" + hosts.B.Ifname + "/ndisc_notify"
			}
			if err := hosts.B.NS.Do(func() error { return os.WriteFile(announce, []byte("1"), 0) }); err != nil {
				t.Fatal(err)
			}
			onLink(t, hosts.B, func(h *netlink.Handle, l netlink.Link) error { return h.LinkSetHardwareAddr(l, changed) })
			waitFor(t, "frames to the peer's new address", func() bool {
				if err := p.Write(1, false); err != nil {
					t.Fatal(err)
				}
				_, dst := lastMACs(tap, peer)
				return bytes.Equal(dst, changed)
			})
			own := net.HardwareAddr{2, 0xa, 0xa, 0xa, 0xa, 0xa}
			onLink(t, hosts.A, func(h *netlink.Handle, l netlink.Link) error { return h.LinkSetHardwareAddr(l, own) })
			waitFor(t, "frames from the own new address", func() bool {
				if err := p.Write(1, false); err != nil {
					t.Fatal(err)
				}
				src, _ := lastMACs(tap, peer)
				return bytes.Equal(src, own)
			})
			if err := p.Every(1, 3000); err != nil {
				t.Error(err)
			}
			if port, err := a.QueryPort(); err != nil || !bytes.Equal(port.MAC, own) {
				t.Errorf("port %v, %v", port.MAC, err)
			}
		})
	}
}

// TestNetnsRouteChanges: a connection to a peer behind a gateway is taken over to
// another one, and to the peer itself, as routes change.
func TestNetnsRouteChanges(t *testing.T) {
	lan := netns.LANForTest(t, 3, netns.LANOptions{PairOptions: netns.PairOptions{NoIPv6: true}})
	far := netip.MustParseAddr("203.0.113.5")
	near, gateway, peer := lan.Hosts[0], lan.Hosts[1], lan.Hosts[2]
	onLink(t, peer, func(h *netlink.Handle, l netlink.Link) error { return h.AddrAdd(l, hostNet(far, 32)) })
	for _, name := range []string{"ip_forward", "conf/all/send_redirects", "conf/" + gateway.Ifname + "/send_redirects"} {
		value := []byte("0")
		if name == "ip_forward" {
			value = []byte("1")
		}
		if err := gateway.NS.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/"+name, value, 0) }); err != nil {
			t.Fatal(err)
		}
	}
	route := func(gw netip.Addr) func(h *netlink.Handle, l netlink.Link) error {
		return func(h *netlink.Handle, l netlink.Link) error {
			r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: hostNet(far, 32).IPNet}
			if gw.IsValid() {
				r.Gw = gw.AsSlice()
			} else {
				r.Scope = netlink.SCOPE_LINK
			}
			return h.RouteReplace(r)
		}
	}
	onLink(t, gateway, route(peer.IPv4))
	onLink(t, near, route(gateway.IPv4))
	a, c := openIn(t, near, nil), openIn(t, peer, nil)
	index, err := c.GIDIndex(far)
	if err != nil {
		t.Fatal(err)
	}
	p := verbstest.RCPair(t, a, c, verbstest.Options{UseGIDIndex: true, GIDIndex: [2]int{0, index}})
	tap := netns.CaptureForTest(t, lan.Bridge, lan.Taps[0])
	check := func(what string, gw netip.Addr, mac net.HardwareAddr) {
		t.Helper()
		onLink(t, near, route(gw))
		waitFor(t, what, func() bool {
			if err := p.Write(1, false); err != nil {
				t.Fatal(err)
			}
			_, dst := lastMACs(tap, far)
			return bytes.Equal(dst, mac)
		})
		if err := p.Every(1, 3000); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("through the gateway", gateway.IPv4, gateway.MAC)
	check("through the peer's other address", peer.IPv4, peer.MAC)
	check("through the gateway again", gateway.IPv4, gateway.MAC)
	check("on the link", netip.Addr{}, peer.MAC)
}

// TestNetnsInterfaceRemovedInUse removes the interface under connections with
// requests on their way and programs that wait: they get what is flushed, no new
// work begins, and the device closes and leaves nothing.
func TestNetnsInterfaceRemovedInUse(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{Bridge: true, Queues: 2})
	fds := countFDs(t)
	a, b := openIn(t, hosts.A, nil), openIn(t, hosts.B, nil)
	rc, err := verbstest.NewRCPair(a, b, verbstest.Options{Depth: 256, Timeout: 18})
	if err != nil {
		t.Fatal(err)
	}
	ud, err := verbstest.NewPair(verbs.UD, a, b, verbstest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(ud.A.Recv(1, 0, 100), ud.A.QP.AttachMulticast(groups[0].As16())); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan verbs.WC, 1)
	go func() {
		wc, err := ud.A.Next()
		if err != nil {
			wc.Status = verbs.WCGeneral
		}
		waiting <- wc
	}()
	if err := hosts.B.SetUp(false); err != nil { // so that requests stay outstanding
		t.Fatal(err)
	}
	const many = 200
	for i := range uint64(many) {
		write(t, rc, i, 3000)
	}
	onLink(t, hosts.A, func(h *netlink.Handle, l netlink.Link) error { return h.LinkDel(l) })
	waitEvent(t, a, verbs.EventDeviceFatal)
	for i := range uint64(many) {
		if wc, err := rc.A.Next(); err != nil || wc.Status != verbs.WCFlushed || wc.WRID != i {
			t.Fatalf("completion %+v, %v; want %d flushed", wc, err, i)
		}
	}
	if wc := <-waiting; wc.Status != verbs.WCFlushed {
		t.Errorf("who waited got %+v", wc)
	}
	waitEvent(t, a, verbs.EventGIDChange)
	if _, err := verbstest.NewRCPair(a, a, verbstest.Options{}); err == nil {
		t.Error("a connection was made")
	}
	if err := ud.A.QP.DetachMulticast(groups[0].As16()); err != nil {
		t.Errorf("detach: %v", err)
	}
	rounds := counterOf(t, a, "background_rounds")
	time.Sleep(300 * time.Millisecond)
	if n := counterOf(t, a, "background_rounds") - rounds; n > 10 {
		t.Errorf("%d background rounds in 300 ms", n)
	}
	done := make(chan error, 1)
	go func() { done <- a.Close() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("close: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Close hangs")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if n := countFDs(t); n > fds {
		t.Errorf("%d file descriptors before, %d after", fds, n)
	}
	if _, err := a.NextEvent(context.Background()); !errors.Is(err, datapath.ErrClosed) {
		t.Errorf("events of a closed device: %v", err)
	}
}
