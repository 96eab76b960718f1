package resolve_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/cm/resolve"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// inside makes a resolver in a namespace.
func inside(t *testing.T, ns *netns.NS) *resolve.Resolver {
	t.Helper()
	var r *resolve.Resolver
	err := ns.Do(func() (err error) {
		r, err = resolve.New()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

// ip runs commands of iproute2, one a line, in a namespace.
func ip(t *testing.T, ns *netns.NS, script string) {
	t.Helper()
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line != "" {
			netns.IP(t, ns, line)
		}
	}
}

// linkLocal is the link-local address of an end.
func linkLocal(t *testing.T, e *netns.End) netip.Addr {
	t.Helper()
	m := e.MAC
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]})
}

// request is what `roce-xdp resolve DST -I IFACE --source SRC` asks.
func request(dst, src, iface string) *verbs.ResolveRequest {
	req := &verbs.ResolveRequest{Dst: netip.MustParseAddr(dst), Interface: iface}
	if src != "" {
		req.Src = netip.MustParseAddr(src)
	}
	return req
}

// within bounds a call whose next hop does not answer.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestNetnsWays(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 4500})
	ip(t, pair.A.NS, `
		route add 198.51.100.0/24 via 192.0.2.2
		route add 198.51.101.0/24 via 192.0.2.2 mtu 1400 hoplimit 7
		route add 2001:db8:1::/64 via 2001:db8::2
		route add 198.51.102.0/24 via inet6 2001:db8::2
		link add link eth0 name mv0 address 02:00:00:00:00:77 type macvlan mode bridge
		link set mv0 mtu 1500 up
		address add 192.0.3.1/24 dev mv0
		address add 203.0.113.7/32 dev lo
		route add 192.0.9.0/24 dev eth0 src 203.0.113.7`)
	ip(t, pair.B.NS, "address add 192.0.3.2/24 dev eth0\naddress add 192.0.9.2/24 dev eth0")
	peer, own := [6]byte(pair.B.MAC), [6]byte(pair.A.MAC)
	r := inside(t, pair.A.NS)
	tests := []struct {
		name, dst, src, iface string
		want                  verbs.Resolution
	}{
		{"direct", "192.0.2.2", "", "", verbs.Resolution{Src: pair.A.IPv4, Table: 254}},
		{"IPv4-mapped", "::ffff:192.0.2.2", "", "", verbs.Resolution{Dst: pair.B.IPv4, Src: pair.A.IPv4, Table: 254}},
		{"direct, IPv6", "2001:db8::2", "", "eth0", verbs.Resolution{Src: pair.A.IPv6, Table: 254}},
		{"gateway", "198.51.100.9", "", "", verbs.Resolution{Src: pair.A.IPv4, NextHop: pair.B.IPv4, Table: 254}},
		{"gateway of a narrow route", "198.51.101.9", "192.0.2.1", "", verbs.Resolution{
			Src: pair.A.IPv4, NextHop: pair.B.IPv4, Table: 254, PathMTU: 1400, MTU: verbs.MTU1024, HopLimit: 7,
		}},
		{"gateway, IPv6", "2001:db8:1::9", "", "", verbs.Resolution{Src: pair.A.IPv6, NextHop: pair.B.IPv6, Table: 254}},
		{"gateway of the other family", "198.51.102.9", "", "", verbs.Resolution{Src: pair.A.IPv4, NextHop: pair.B.IPv6, Table: 254}},
		{"link-local", linkLocal(t, pair.B).String() + "%eth0", "", "", verbs.Resolution{
			Dst: linkLocal(t, pair.B), Src: linkLocal(t, pair.A), Table: 254,
		}},
		{"macvlan", "192.0.3.2", "", "", verbs.Resolution{
			Src: netip.MustParseAddr("192.0.3.1"), Interface: "mv0", Table: 254,
			SrcMAC: [6]byte{2, 0, 0, 0, 0, 0x77}, LinkMTU: 1500, PathMTU: 1500, MTU: verbs.MTU1024,
		}},
		// The kernel would send from an address that the interface does not have.
		{"source of another interface", "192.0.9.2", "", "", verbs.Resolution{Src: pair.A.IPv4, Table: 254}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := r.Resolve(within(t, 5*time.Second), request(tt.dst, tt.src, tt.iface))
			if err != nil {
				t.Fatal(err)
			}
			want := tt.want
			orElse(&want.Dst, netip.MustParseAddr(tt.dst))
			orElse(&want.NextHop, want.Dst)
			orElse(&want.Interface, "eth0")
			orElse(&want.SrcMAC, own)
			orElse(&want.LinkMTU, 4500)
			orElse(&want.PathMTU, 4500)
			orElse(&want.MTU, verbs.MTU4096)
			orElse(&want.HopLimit, 64)
			want.DstMAC, want.Device, want.SGIDIndex = peer, "eth0", -1
			if got.Neighbour == "" || got.IfIndex == 0 {
				t.Errorf("neighbour %q, interface %d", got.Neighbour, got.IfIndex)
			}
			want.Neighbour, want.IfIndex = got.Neighbour, got.IfIndex
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			if got.Gateway() != (got.NextHop != got.Dst) {
				t.Errorf("Gateway() is %v", got.Gateway())
			}
		})
	}
}

func orElse[T comparable](v *T, other T) {
	var zero T
	if *v == zero {
		*v = other
	}
}

// An own address is answered at once, nobody is asked.
func TestNetnsOwn(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{})
	ip(t, pair.A.NS, "address add 203.0.113.7/32 dev lo")
	r := inside(t, pair.A.NS)
	for _, tt := range []struct{ dst, iface string }{
		{"192.0.2.1", "eth0"}, {"2001:db8::1", "eth0"}, {linkLocal(t, pair.A).String(), "eth0"},
		{linkLocal(t, pair.A).String() + "%eth0", "eth0"},
		{"127.0.0.1", "lo"}, {"127.8.8.8", "lo"}, {"::1", "lo"}, {"203.0.113.7", "lo"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // it would be noticed by who waits
		got, err := r.Resolve(ctx, request(tt.dst, "", ""))
		dst := netip.MustParseAddr(tt.dst).WithZone("")
		if err != nil || !got.Local || got.Interface != tt.iface || got.Src != dst || got.NextHop != dst || got.DstMAC != got.SrcMAC || got.Gateway() {
			t.Errorf("%s: %+v, %v", tt.dst, got, err)
		}
	}
}

func TestNetnsErrors(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{})
	ip(t, pair.A.NS, `
		route add blackhole 198.51.100.0/24
		route add unreachable 198.51.101.0/24
		route add prohibit 198.51.102.0/24
		route add blackhole 2001:db8:1::/64
		route add 198.51.103.0/24 via 192.0.2.99
		link add tail type veth peer name head
		link set tail up
		address add 192.0.4.1/24 dev tail
		link add idle type veth peer name under
		tuntap add dev tun7 mode tun
		link set tun7 up
		address add 192.0.7.1/24 dev tun7`)
	r := inside(t, pair.A.NS)
	tests := []struct {
		name, dst, src, iface string
		is                    error
		says                  []string
	}{
		{"no route", "203.0.113.5", "", "", resolve.ErrNoRoute, []string{"to 203.0.113.5", "ip route add"}},
		{"no route, IPv6", "2001:db8:5::1", "", "", resolve.ErrNoRoute, []string{"2001:db8:5::1", "ip route add"}},
		{"no route through the interface", "203.0.113.5", "", "eth0", resolve.ErrNoRoute, []string{"through eth0", "ip route add"}},
		{"blackhole", "198.51.100.1", "", "", resolve.ErrNoRoute, []string{"blackhole"}},
		{"blackhole, IPv6", "2001:db8:1::1", "", "", resolve.ErrNoRoute, []string{"blackhole"}},
		{"unreachable", "198.51.101.1", "", "", resolve.ErrNoRoute, []string{"unreachable route"}},
		{"prohibit", "198.51.102.1", "", "", resolve.ErrNoRoute, []string{"prohibit"}},
		{"broadcast", "192.0.2.255", "", "", resolve.ErrNoRoute, []string{"not the address of one host"}},
		{"own address of another interface", "192.0.4.1", "", "eth0", resolve.ErrNoRoute, []string{"this host's own address, of tail, not of eth0"}},
		{"silent neighbour", "192.0.2.99", "", "", resolve.ErrNoNeighbour, []string{"192.0.2.99 on eth0 within ", "peer is down"}},
		{"silent neighbour, IPv6", "2001:db8::99", "", "", resolve.ErrNoNeighbour, []string{"2001:db8::99 on eth0 within "}},
		{"silent gateway", "198.51.103.1", "", "", resolve.ErrNoNeighbour, []string{"192.0.2.99", "the gateway to 198.51.103.1"}},
		{"silent link-local", "fe80::99%eth0", "", "", resolve.ErrNoNeighbour, []string{"fe80::99 on eth0"}},
		{"link-local without scope", "fe80::99", "", "", resolve.ErrNoDevice, []string{"fe80::99%NAME", "eth0"}},
		{"link-local group without scope", "ff02::1:5", "", "", resolve.ErrNoDevice, []string{"name the interface"}},
		{"no such interface", "192.0.2.2", "", "eth7", resolve.ErrNoDevice, []string{"no interface eth7", "lo", "eth0", "tail"}},
		{"no such zone", "fe80::2%eth7", "", "", resolve.ErrNoDevice, []string{"no interface eth7"}},
		{"interface that is down", "192.0.2.2", "", "idle", resolve.ErrNoDevice, []string{"ip link set idle up"}},
		{"no Ethernet", "192.0.7.2", "", "", resolve.ErrNoDevice, []string{"tun7", "no Ethernet address"}},
		{"foreign source", "192.0.2.2", "192.0.2.9", "", resolve.ErrNoSource, []string{"192.0.2.9 is no address of this host"}},
		{"source of another interface", "192.0.2.2", "192.0.4.1", "eth0", resolve.ErrNoSource, []string{"of tail, not of eth0"}},
		{"other families", "192.0.2.2", "2001:db8::1", "", resolve.ErrInvalid, []string{"different families"}},
		{"two interfaces", "fe80::2%eth0", "", "tail", resolve.ErrInvalid, []string{"tail and eth0"}},
		{"nowhere", "0.0.0.0", "", "", resolve.ErrInvalid, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := r.Resolve(within(t, 300*time.Millisecond), request(tt.dst, tt.src, tt.iface))
			if !errors.Is(err, tt.is) {
				t.Fatalf("got %v, want %v", err, tt.is)
			}
			for _, s := range tt.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if _, err := r.Resolve(ctx, request("192.0.2.99", "", "")); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no address", func(t *testing.T) {
		for _, req := range []*verbs.ResolveRequest{nil, {}} {
			if _, err := r.Resolve(t.Context(), req); !errors.Is(err, resolve.ErrInvalid) {
				t.Errorf("got %v", err)
			}
		}
	})
}
