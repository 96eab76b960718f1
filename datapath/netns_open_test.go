package datapath_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// tryOpen opens a device in a namespace, which is expected to fail.
func tryOpen(t *testing.T, ns *netns.NS, ifname string, o *datapath.Options) error {
	t.Helper()
	var dev *verbs.Context
	err := ns.Do(func() (err error) {
		dev, err = datapath.Open(ifname, o)
		return err
	})
	if err == nil {
		t.Error("the device was opened")
		err = dev.Close()
	}
	return err
}

func TestNetnsOpenRefuses(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{MTU: 1500, NoIPv6: true})
	small := netns.PairForTest(t, netns.PairOptions{MTU: 300, NoIPv6: true})
	for _, tt := range []struct {
		name   string
		ns     *netns.NS
		ifname string
		o      *datapath.Options
		want   error
		says   string
	}{
		{"no such interface", hosts.A.NS, "eth9", nil, datapath.ErrNoInterface, "it has lo, eth0"},
		{"no Ethernet address", hosts.A.NS, "lo", nil, datapath.ErrInterface, "no Ethernet address"},
		{"MTU too small", small.A.NS, small.A.Ifname, nil, datapath.ErrInterface, "its MTU is 300, and the smallest path MTU needs 336: ip link set eth0 mtu 336"},
		{"more queues than there are", hosts.A.NS, "eth0", &datapath.Options{Queues: 3}, datapath.ErrConfig, "the interface has 1"},
		{"zero-copy on veth", hosts.A.NS, "eth0", &datapath.Options{Socket: xsk.ZeroCopy}, xsk.ErrNoZeroCopy, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fds := countFDs(t)
			err := tryOpen(t, tt.ns, tt.ifname, tt.o)
			if !errors.Is(err, tt.want) || !strings.Contains(fmt.Sprint(err), tt.says) {
				t.Errorf("error %v, want %v: %q", err, tt.want, tt.says)
			}
			if n := countFDs(t); n > fds {
				t.Errorf("%d file descriptors more than before", n-fds)
			}
			checkNoProgram(t, tt.ns, tt.ifname)
		})
	}
}

func TestNetnsOpenTwice(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{})
	openIn(t, hosts.A, nil)
	if err := tryOpen(t, hosts.A.NS, hosts.A.Ifname, nil); !errors.Is(err, bpf.ErrBusy) {
		t.Errorf("error %v, want %v", err, bpf.ErrBusy)
	}
}

func countFDs(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// checkNoProgram checks that an interface, if it exists, has no XDP program.
func checkNoProgram(t *testing.T, ns *netns.NS, ifname string) {
	t.Helper()
	h, err := ns.Handle()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if l, err := h.LinkByName(ifname); err == nil && l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached {
		t.Errorf("%s still has an XDP program", ifname)
	}
}

// TestNetnsCloseLeavesNothing opens, uses and closes devices, and looks for what
// is left.
func TestNetnsCloseLeavesNothing(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{Queues: 2})
	use := func() {
		a, b := openIn(t, hosts.A, nil), openIn(t, hosts.B, nil)
		p, err := verbstest.NewRCPair(a, b, verbstest.Options{})
		if err == nil {
			err = p.Write(5000, true)
		}
		// All that was made goes with the devices.
		if err := errors.Join(err, a.Close(), b.Close()); err != nil {
			t.Fatal(err)
		}
	}
	use() // what the process keeps after the first time is not a leak
	fds, memory := countFDs(t), resident(t)
	for range 3 {
		use()
	}
	if n := countFDs(t); n > fds {
		t.Errorf("%d file descriptors before, %d after", fds, n)
	}
	// The packet memory of one device is 48 MiB, all of it resident.
	if now := resident(t); now > memory+40<<20 {
		t.Errorf("%d MiB resident before, %d after", memory>>20, now>>20)
	}
	if n := kernelMaps(t); n != 0 {
		t.Errorf("%d mappings of sockets or maps are left", n)
	}
	checkNoProgram(t, hosts.A.NS, hosts.A.Ifname)
	checkNoProgram(t, hosts.B.NS, hosts.B.Ifname)
}

// kernelMaps is the number of mappings of socket rings and BPF maps.
func kernelMaps(t *testing.T) (n int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "socket:") || strings.Contains(line, "bpf") {
			n++
		}
	}
	return n
}

// resident is the resident memory of the process in bytes.
func resident(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// TestNetnsAddresses follows the GID table and the traffic to an address that
// comes and goes.
func TestNetnsAddresses(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{NoIPv6: true})
	a, b := openIn(t, hosts.A, nil), openIn(t, hosts.B, nil)
	second := netip.MustParsePrefix("198.51.100.1/24")
	change := func(do func(h *netlink.Handle, l netlink.Link, a *netlink.Addr) error) {
		t.Helper()
		h, err := hosts.A.NS.Handle()
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		l, err := h.LinkByName(hosts.A.Ifname)
		if err == nil {
			err = do(h, l, &netlink.Addr{IPNet: &net.IPNet{IP: second.Addr().AsSlice(), Mask: net.CIDRMask(24, 32)}})
		}
		if err != nil {
			t.Fatal(err)
		}
		waitEvent(t, a, verbs.EventGIDChange)
	}
	change(func(h *netlink.Handle, l netlink.Link, a *netlink.Addr) error { return h.AddrAdd(l, a) })
	i, err := a.GIDIndex(second.Addr())
	if err != nil || i != 1 {
		t.Fatalf("GID index %d, %v", i, err)
	}
	change(func(h *netlink.Handle, l netlink.Link, a *netlink.Addr) error { return h.AddrDel(l, a) })
	if _, err := a.GIDIndex(second.Addr()); err == nil {
		t.Error("the address is still there")
	}
	if err := verbstest.RCPair(t, a, b, verbstest.Options{}).Write(100, false); err != nil {
		t.Error(err)
	}
}

// waitEvent waits for an event of a type and passes over others.
func waitEvent(t *testing.T, dev *verbs.Context, want verbs.EventType) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		e, err := dev.NextEvent(ctx)
		if err != nil {
			t.Fatalf("event %v: %v", want, err)
		}
		if e.Type == want {
			return
		}
	}
}

// TestNetnsLinkFlap takes the link down while requests are posted: all complete
// once it is up.
func TestNetnsLinkFlap(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{NoIPv6: true})
	a, b := openIn(t, hosts.A, nil), openIn(t, hosts.B, nil)
	p := verbstest.RCPair(t, a, b, verbstest.Options{Depth: 256, Timeout: 17}) // 0.5 s
	if err := hosts.A.SetUp(false); err != nil {
		t.Fatal(err)
	}
	waitEvent(t, a, verbs.EventPortErr)
	if port, err := a.QueryPort(); err != nil || port.State != verbs.PortDown {
		t.Errorf("port %v, %v", port.State, err)
	}
	for i := range uint64(100) {
		if err := p.A.Post(verbs.SendWR{WRID: i, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 2000)},
			RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}); err != nil {
			t.Fatal(err)
		}
	}
	if err := hosts.A.SetUp(true); err != nil {
		t.Fatal(err)
	}
	waitEvent(t, a, verbs.EventPortActive)
	for i := range uint64(100) {
		if _, err := p.A.Done(i, verbs.WCRDMAWrite); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNetnsMTUChange(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{MTU: 1500})
	a, b := openIn(t, hosts.A, nil), openIn(t, hosts.B, nil)
	for _, e := range []*netns.End{hosts.A, hosts.B} {
		if err := e.SetMTU(9000); err != nil {
			t.Fatal(err)
		}
	}
	for _, dev := range []*verbs.Context{a, b} {
		waitFor(t, "the new MTU", func() bool {
			p, err := dev.QueryPort()
			return err == nil && p.LinkMTU == 9000 && p.ActiveMTU == verbs.MTU4096
		})
	}
	p := verbstest.RCPair(t, a, b, verbstest.Options{})
	if err := p.Write(100_000, false); err != nil || p.MTU != verbs.MTU4096 {
		t.Errorf("path MTU %v: %v", p.MTU, err)
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}

// TestNetnsUnreachable: what keeps a queue pair from finding its peer is said.
func TestNetnsUnreachable(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{NoIPv6: true})
	a := openIn(t, hosts.A, nil)
	for _, tt := range []struct {
		name, peer string
		want       error
		says       string
	}{
		{"no route", "203.0.113.5", datapath.ErrNoRoute, "from 192.0.2.1 to 203.0.113.5 through eth0"},
		{"nobody there", "192.0.2.200", datapath.ErrNoNeighbour, "nobody answered for 192.0.2.200 on eth0 within 3s"},
		{"this host", "127.0.0.1", datapath.ErrNoRoute, "127.0.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			err := connectTo(t, a, netip.MustParseAddr(tt.peer))
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want %v: %q", err, tt.want, tt.says)
			}
			if d := time.Since(begin); d > 8*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

// connectTo brings a queue pair to RTR towards a peer.
func connectTo(t *testing.T, dev *verbs.Context, peer netip.Addr) error {
	t.Helper()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(4)
	if err != nil {
		t.Fatal(err)
	}
	qp, err := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
	if err != nil {
		t.Fatal(err)
	}
	err = qp.Modify(&verbs.QPAttr{State: verbs.QPStateInit, Port: 1},
		ibv.QPAttrState|ibv.QPAttrPKeyIndex|ibv.QPAttrPort|ibv.QPAttrAccessFlags)
	if err != nil {
		t.Fatal(err)
	}
	return qp.Modify(&verbs.QPAttr{
		State: verbs.QPStateRTR, PathMTU: verbs.MTU1024, DestQPN: 17, MinRNRTimer: 1,
		AV: verbs.AddressVector{DGID: verbs.GID(peer.As16()), Port: 1},
	}, ibv.QPAttrState|ibv.QPAttrAV|ibv.QPAttrPathMTU|ibv.QPAttrDestQPN|ibv.QPAttrRQPSN|ibv.QPAttrMaxDestRDAtomic|ibv.QPAttrMinRNRTimer)
}

// TestNetnsGateway reaches a peer behind a gateway: frames carry the gateway's
// link-layer address.
func TestNetnsGateway(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{NoIPv6: true})
	a := openIn(t, hosts.A, nil)
	h, err := hosts.A.NS.Handle()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	_, far, _ := net.ParseCIDR("203.0.113.0/24")
	if err := h.RouteAdd(&netlink.Route{LinkIndex: hosts.A.Ifindex, Dst: far, Gw: hosts.B.IPv4.AsSlice()}); err != nil {
		t.Fatal(err)
	}
	if err := connectTo(t, a, netip.MustParseAddr("203.0.113.5")); err != nil {
		t.Errorf("behind a gateway that is there: %v", err)
	}
	_, farther, _ := net.ParseCIDR("198.18.0.0/24")
	if err := h.RouteAdd(&netlink.Route{LinkIndex: hosts.A.Ifindex, Dst: farther, Gw: net.IPv4(192, 0, 2, 77)}); err != nil {
		t.Fatal(err)
	}
	err = connectTo(t, a, netip.MustParseAddr("198.18.0.5"))
	if !errors.Is(err, datapath.ErrNoNeighbour) || !strings.Contains(err.Error(), "it is the gateway to 198.18.0.5") {
		t.Errorf("behind a gateway that is not there: %v", err)
	}
}

// TestNetnsInterfaceRemoved: the device says so, and closes.
func TestNetnsInterfaceRemoved(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{})
	a := openIn(t, hosts.A, nil)
	h, err := hosts.A.NS.Handle()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	l, err := h.LinkByName(hosts.A.Ifname)
	if err == nil {
		err = h.LinkDel(l)
	}
	if err != nil {
		t.Fatal(err)
	}
	waitEvent(t, a, verbs.EventDeviceFatal)
}

// TestNetnsLoopback connects two queue pairs of one device.
func TestNetnsLoopback(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{MTU: 9000})
	a := openIn(t, hosts.A, nil)
	p := verbstest.RCPair(t, a, a, verbstest.Options{})
	everyOperation(t, p, []int{0, 1, 4096, 100_000})
}
