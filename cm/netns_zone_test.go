package cm_test

import (
	"errors"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/internal/daemon/daemontest"
	"github.com/roce-xdp/roce-xdp/internal/daemon/serve"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Addresses that both hosts have on both of their links.
var (
	zonedA = netip.MustParseAddr("fe80::a")
	zonedB = netip.MustParseAddr("fe80::b")
)

// twoLinks joins two hosts by eth0 and eth1, on which their link-local addresses are the
// same, and opens all four devices.
func twoLinks(t *testing.T) (a, b [2]*verbs.Context) {
	t.Helper()
	hosts := netns.PairForTest(t, netns.PairOptions{})
	netns.IP(t, hosts.A.NS, "link add eth1 type veth peer name eth1 netns "+hosts.B.NS.Name())
	for i, ns := range []*netns.NS{hosts.A.NS, hosts.B.NS} {
		own := []netip.Addr{zonedA, zonedB}[i].String()
		netns.IP(t, ns, "link set eth1 up", "address add "+own+"/64 dev eth0 nodad", "address add "+own+"/64 dev eth1 nodad")
	}
	for i, name := range []string{"eth0", "eth1"} {
		for j, devs := range []*[2]*verbs.Context{&a, &b} {
			e := *[]*netns.End{hosts.A, hosts.B}[j]
			e.Ifname = name
			dev := openIn(t, &e)
			waitFor(t, "the address", func() bool {
				_, err := dev.GIDIndex([]netip.Addr{zonedA, zonedB}[j])
				return err == nil
			})
			devs[i] = dev
		}
	}
	return a, b
}

func TestNetnsZones(t *testing.T) {
	a, b := twoLinks(t)
	t.Run("in process", func(t *testing.T) { zones(t, a, b) })
	t.Run("through daemons", func(t *testing.T) {
		for i := range a {
			for _, devs := range []*[2]*verbs.Context{&a, &b} {
				devs[i] = daemontest.Start(t, devs[i], serve.Config{Name: "test"}).Open(t)
			}
		}
		zones(t, a, b)
	})
}

// zones has peers of the same address told apart by the zone.
func zones(t *testing.T, a, b [2]*verbs.Context) {
	names := [2]string{"eth0", "eth1"}
	for i, name := range names {
		l := listen(t, b[i], "["+zonedB.String()+"%"+name+"]:7471", &cm.Config{PrivateData: []byte(name)})
		port, err := b[i].QueryPort()
		if err != nil {
			t.Fatal(err)
		}
		if want := netip.AddrPortFrom(zonedB.WithZone(strconv.Itoa(port.IfIndex)), 7471); l.Addr() != want {
			t.Errorf("it listens at %v, not %v", l.Addr(), want)
		}
		go serveZone(t, l)
	}
	for i, name := range names {
		to := "[" + zonedB.String() + "%" + name + "]:7471"
		t.Run("dial "+to, func(t *testing.T) {
			c, err := cm.Dial(within(t), a[i], to, nil)
			if err != nil {
				t.Fatal(err)
			}
			closeLater(t, c)
			port, err := a[i].QueryPort()
			if err != nil {
				t.Fatal(err)
			}
			if got := string(c.PrivateData()[:len(name)]); got != name {
				t.Errorf("%s answers", got)
			}
			if c.RemoteAddr() != netip.AddrPortFrom(zonedB.WithZone(strconv.Itoa(port.IfIndex)), 7471) || c.LocalAddr().Addr().Zone() != c.RemoteAddr().Addr().Zone() {
				t.Errorf("between %v and %v", c.LocalAddr(), c.RemoteAddr())
			}
		})
		t.Run("id to "+to, func(t *testing.T) { zonedID(t, a, netip.MustParseAddrPort(to), a[i]) })
		t.Run("bind to "+name, func(t *testing.T) {
			ch := cm.NewEventChannel(a[0], a[1])
			defer ch.Close()
			id, err := ch.CreateID(cm.PortSpaceTCP)
			if err != nil {
				t.Fatal(err)
			}
			if err := id.BindAddr(netip.AddrPortFrom(zonedA.WithZone(name), 0)); err != nil || id.Device() != a[i] {
				t.Errorf("bound to %v of %v, %v", id.LocalAddr(), id.Device(), err)
			}
		})
	}
	for _, tt := range []struct {
		name string
		call func() error
		is   error
		says string
	}{
		{"dial where the device does not lead", func() error {
			_, err := cm.Dial(within(t), a[0], "[fe80::b%eth1]:7471", nil)
			return err
		}, verbs.ErrNoDevice, "eth1, which is neither eth0 nor on top of it"},
		{"dial in no zone that there is", func() error {
			_, err := cm.Dial(within(t), a[0], "[fe80::b%eth7]:7471", nil)
			return err
		}, verbs.ErrNoDevice, "no interface eth7"},
		{"dial from no zone that there is", func() error {
			_, err := cm.Dial(within(t), a[0], "[fe80::b]:7471", &cm.Config{LocalAddr: netip.AddrPortFrom(zonedA.WithZone("eth7"), 0)})
			return err
		}, verbs.ErrNoDevice, "no interface eth7"},
		{"listen in no zone that there is", func() error {
			_, err := cm.Listen(b[0], "[fe80::b%eth7]:7472", nil)
			return err
		}, verbs.ErrNoDevice, "no interface eth7"},
		{"listen in another's", func() error {
			_, err := cm.Listen(b[0], "[fe80::b%eth1]:7472", nil)
			return err
		}, cm.ErrNoSource, "eth1 does not have the address fe80::b"},
		{"listen at all of one interface", func() error {
			_, err := cm.Listen(b[0], "[::%eth0]:7472", nil)
			return err
		}, verbs.ErrInvalid, "one by one"},
		{"bind in no zone that there is", func() error {
			ch := cm.NewEventChannel(a[0], a[1])
			defer ch.Close()
			id, err := ch.CreateID(cm.PortSpaceTCP)
			if err != nil {
				return err
			}
			return id.BindAddr(netip.AddrPortFrom(zonedA.WithZone("eth7"), 0))
		}, cm.ErrNoSource, "no interface eth7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.call(); !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %v: %q", err, tt.is, tt.says)
			}
		})
	}
}

// serveZone accepts all connections until the listener ends.
func serveZone(t *testing.T, l *cm.Listener) {
	for {
		c, err := l.Accept(t.Context())
		if err != nil {
			return
		}
		go func() {
			<-c.Done()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
	}
}

// zonedID resolves and connects an id of a channel of both devices.
func zonedID(t *testing.T, devs [2]*verbs.Context, to netip.AddrPort, want *verbs.Context) {
	s := newStation(t, want)
	s.ch = cm.NewEventChannel(devs[0], devs[1])
	defer s.ch.Close()
	id := s.id(cm.PortSpaceTCP)
	s.ok(id.ResolveAddr(netip.AddrPort{}, to, 5*time.Second))
	s.next(cm.EventAddrResolved)
	if id.Device() != want {
		t.Fatalf("%v is reached by %s", to, id.Device().Name())
	}
	s.ok(id.ResolveRoute(5 * time.Second))
	s.next(cm.EventRouteResolved)
	s.qp(id)
	s.ok(id.Connect(&cm.ConnParam{RetryCount: 7, RNRRetryCount: 7}))
	e := s.next(cm.EventEstablished)
	if zone := to.Addr().Zone(); string(e.Param.PrivateData[:len(zone)]) != zone {
		t.Errorf("%q answers", e.Param.PrivateData)
	}
	s.ok(id.Disconnect())
	s.next(cm.EventDisconnected)
	s.ok(id.Destroy())
}

// TestNetnsZoneOnTop: one device leads to a peer through its interface and through one on top
// of it, each with an address of its own.
func TestNetnsZoneOnTop(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{Bridge: true})
	if out, err := exec.Command("ip", "-n", hosts.A.NS.Name(), "link", "add", "link", "eth0", "name", "mv0", "type", "macvlan", "mode", "bridge").CombinedOutput(); err != nil {
		netns.Missing(t, "macvlan", "this kernel has no macvlan: "+string(out))
	}
	netns.IP(t, hosts.A.NS, "link set mv0 up", "address add fe80::c/64 dev mv0 nodad", "address add fe80::a/64 dev eth0 nodad")
	netns.IP(t, hosts.B.NS, "address add fe80::b/64 dev eth0 nodad")
	a, b := openIn(t, hosts.A), openIn(t, hosts.B)
	test := func(t *testing.T, a, b *verbs.Context) {
		l := listen(t, b, "[fe80::b%eth0]:7471", nil)
		go serveZone(t, l)
		for name, own := range map[string]netip.Addr{"eth0": zonedA, "mv0": netip.MustParseAddr("fe80::c")} {
			t.Run(name, func(t *testing.T) {
				waitFor(t, "the address", func() bool { _, err := a.GIDIndex(own.WithZone(name)); return err == nil })
				c, err := cm.Dial(within(t), a, "[fe80::b%"+name+"]:7471", &cm.Config{LocalAddr: netip.AddrPortFrom(own, 0)})
				if err != nil {
					t.Fatal(err)
				}
				closeLater(t, c)
				attr, err := c.QP().Query()
				if err != nil {
					t.Fatal(err)
				}
				g, err := a.QueryGID(attr.AV.SGIDIndex)
				if err != nil || g.GID.Addr() != own || c.LocalAddr().Addr() != own.WithZone(strconv.Itoa(g.IfIndex)) {
					t.Errorf("from %+v, %v: %v", g, c.LocalAddr(), err)
				}
				index, err := a.GIDIndex(own.WithZone(name))
				if err != nil || index != attr.AV.SGIDIndex {
					t.Errorf("index %d, %v", index, err)
				}
			})
		}
		if _, err := cm.Dial(within(t), a, "[fe80::b%mv0]:7471", &cm.Config{LocalAddr: netip.AddrPortFrom(zonedA, 0)}); !errors.Is(err, cm.ErrNoSource) {
			t.Errorf("from an address of another interface: %v", err)
		}
	}
	t.Run("in process", func(t *testing.T) { test(t, a, b) })
	t.Run("through daemons", func(t *testing.T) {
		test(t, daemontest.Start(t, a, serve.Config{Name: "test"}).Open(t), daemontest.Start(t, b, serve.Config{Name: "test"}).Open(t))
	})
}
