package netns_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

func TestNetnsPairOptions(t *testing.T) {
	tests := []struct {
		name string
		o    netns.PairOptions
		want string
	}{
		{"no addresses", netns.PairOptions{NoIPv4: true, NoIPv6: true}, "without addresses"},
		{"MTU too small", netns.PairOptions{MTU: 67}, "MTU of 68"},
		{"MTU too large", netns.PairOptions{MTU: 65536}, "65535"},
		{"negative queues", netns.PairOptions{Queues: -1}, "1 to 64 queues"},
		{"too many queues", netns.PairOptions{Queues: 65}, "1 to 64 queues"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := netns.NewPair(tt.o)
			if err == nil {
				p.Close()
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not say %q", err, tt.want)
			}
		})
	}
}

func TestNetnsPairCarriesTraffic(t *testing.T) {
	tests := []struct {
		name string
		o    netns.PairOptions
	}{
		{"defaults", netns.PairOptions{}},
		{"jumbo with 4 queues", netns.PairOptions{MTU: 9000, Queues: 4}},
		{"IPv4 alone", netns.PairOptions{NoIPv6: true}},
		{"IPv6 alone", netns.PairOptions{NoIPv4: true}},
		{"bridge between", netns.PairOptions{MTU: 9000, Bridge: true}},
		{"static neighbours", netns.PairOptions{StaticNeighbors: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := netns.PairForTest(t, tt.o)
			checkLink(t, p.A, tt.o)
			checkLink(t, p.B, tt.o)
			if len(p.A.Addrs()) == 0 {
				t.Fatal("no address to talk to")
			}
			for _, addr := range p.A.Addrs() {
				exchange(t, p.A, p.B, addr)
			}
		})
	}
}

// checkLink compares an end's interface with what was asked for.
func checkLink(t *testing.T, e *netns.End, o netns.PairOptions) {
	t.Helper()
	want := struct{ mtu, queues int }{max(o.MTU, 0), max(o.Queues, 1)}
	if want.mtu == 0 {
		want.mtu = 1500
	}
	h, err := e.NS.Handle()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	link, err := h.LinkByName(e.Ifname)
	if err != nil {
		t.Fatal(err)
	}
	a := link.Attrs()
	if a.MTU != want.mtu || a.NumRxQueues != want.queues || a.NumTxQueues != want.queues {
		t.Errorf("%s has MTU %d, %d rx and %d tx queues, want %d and %d", e.NS.Name(), a.MTU, a.NumRxQueues, a.NumTxQueues, want.mtu, want.queues)
	}
	if a.Index != e.Ifindex || a.HardwareAddr.String() != e.MAC.String() {
		t.Errorf("link is %d %v, the end says %d %v", a.Index, a.HardwareAddr, e.Ifindex, e.MAC)
	}
	neighs, err := h.NeighList(a.Index, netlink.FAMILY_ALL)
	if err != nil {
		t.Fatal(err)
	}
	permanent := 0
	for _, n := range neighs {
		if n.State == netlink.NUD_PERMANENT && len(n.HardwareAddr) == 6 {
			permanent++
		}
	}
	if o.StaticNeighbors != (permanent == len(e.Addrs())) {
		t.Errorf("%d permanent neighbours, static neighbours asked for: %v", permanent, o.StaticNeighbors)
	}
}

// exchange sends 100 kB over TCP from b to a listener on a's address and back.
func exchange(t *testing.T, a, b *netns.End, addr netip.Addr) {
	t.Helper()
	var l net.Listener
	if err := a.NS.Do(func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.Copy(c, c)
	}()
	var c net.Conn
	if err := b.NS.Do(func() (err error) {
		c, err = net.DialTimeout("tcp", l.Addr().String(), 5*time.Second)
		return err
	}); err != nil {
		t.Fatalf("dial %v at once, without waiting for address detection: %v", addr, err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	sent := strings.Repeat("0123456789", 10_000)
	go func() {
		_, _ = io.WriteString(c, sent)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || string(got) != sent {
		t.Errorf("%v echoed %d bytes, %v; want %d", addr, len(got), err, len(sent))
	}
}

func TestNetnsPairLinkDownAndMTU(t *testing.T) {
	p := netns.PairForTest(t, netns.PairOptions{})
	h, err := p.A.NS.Handle()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	state := func() string {
		link, err := h.LinkByName(p.A.Ifname)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("up %v mtu %d", link.Attrs().Flags&net.FlagUp != 0, link.Attrs().MTU)
	}
	steps := []struct {
		do   func() error
		want string
	}{
		{func() error { return p.A.SetUp(false) }, "up false mtu 1500"},
		{func() error { return p.A.SetUp(true) }, "up true mtu 1500"},
		{func() error { return p.A.SetMTU(9000) }, "up true mtu 9000"},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatal(err)
		}
		if got := state(); got != s.want {
			t.Errorf("link is %s, want %s", got, s.want)
		}
	}
}

func TestNetnsPairCloseLeavesNothing(t *testing.T) {
	netns.Require(t)
	p, err := netns.NewPair(netns.PairOptions{Bridge: true})
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{p.A.NS.Path(), p.B.NS.Path(), p.Bridge.Path()}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there", path)
		}
	}
	if err := p.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestNetnsCloseAll(t *testing.T) {
	netns.Require(t)
	n, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := netns.CloseAll(); err != nil {
		t.Fatal(err)
	}
	if err := n.Do(func() error { return nil }); !errors.Is(err, netns.ErrClosed) {
		t.Errorf("Do after CloseAll = %v, want ErrClosed", err)
	}
}
