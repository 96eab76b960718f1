package datapath_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// A device answers by its own GID table, also where the kernel would go another
// way, and with what it would connect by.
func TestNetnsResolve(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{MTU: 4500})
	netns.IP(t, hosts.A.NS,
		"link add link eth0 name mv0 address 02:00:00:00:00:77 type macvlan mode bridge",
		"link set mv0 up", "address add 192.0.3.1/24 dev mv0",
		"link add tail type veth peer name head", "link set tail up", "link set head up",
		"address add 192.0.4.1/24 dev tail", "route add 198.51.100.0/24 via 192.0.4.9",
		"route add 198.51.100.0/24 via 192.0.2.2 metric 99")
	netns.IP(t, hosts.B.NS, "address add 192.0.3.2/24 dev eth0")
	a := openIn(t, hosts.A, nil)
	peer, own, macvlan := [6]byte(hosts.B.MAC), [6]byte(hosts.A.MAC), [6]byte{2, 0, 0, 0, 0, 0x77}
	addr := netip.MustParseAddr
	tests := []struct {
		name string
		req  verbs.ResolveRequest
		want verbs.Resolution // SGIDIndex is that of Src
	}{
		{"direct", verbs.ResolveRequest{Dst: hosts.B.IPv4},
			verbs.Resolution{Src: hosts.A.IPv4, DstMAC: peer, SrcMAC: own, Interface: "eth0"}},
		{"IPv6 with source", verbs.ResolveRequest{Dst: hosts.B.IPv6, Src: hosts.A.IPv6},
			verbs.Resolution{Src: hosts.A.IPv6, DstMAC: peer, SrcMAC: own, Interface: "eth0"}},
		{"another interface is preferred", verbs.ResolveRequest{Dst: addr("198.51.100.7")},
			verbs.Resolution{Src: hosts.A.IPv4, DstMAC: peer, SrcMAC: own, Interface: "eth0", NextHop: hosts.B.IPv4}},
		{"macvlan", verbs.ResolveRequest{Dst: addr("192.0.3.2")},
			verbs.Resolution{Src: addr("192.0.3.1"), DstMAC: peer, SrcMAC: macvlan, Interface: "mv0"}},
		{"itself", verbs.ResolveRequest{Dst: hosts.A.IPv4},
			verbs.Resolution{Src: hosts.A.IPv4, Local: true, DstMAC: own, SrcMAC: own, Interface: "eth0"}},
		{"loopback", verbs.ResolveRequest{Dst: addr("127.0.0.1")},
			verbs.Resolution{Dst: hosts.A.IPv4, Src: hosts.A.IPv4, Local: true, DstMAC: own, SrcMAC: own, Interface: "eth0"}},
		{"loopback, IPv6", verbs.ResolveRequest{Dst: addr("::1")},
			verbs.Resolution{Dst: hosts.A.IPv6, Src: hosts.A.IPv6, Local: true, DstMAC: own, SrcMAC: own, Interface: "eth0"}},
		{"its macvlan", verbs.ResolveRequest{Dst: addr("192.0.3.1")},
			verbs.Resolution{Src: addr("192.0.3.1"), Local: true, DstMAC: macvlan, SrcMAC: macvlan, Interface: "mv0"}},
		{"a group", verbs.ResolveRequest{Dst: addr("ff02::5:6"), Interface: "eth0"},
			verbs.Resolution{DstMAC: [6]byte{0x33, 0x33, 0, 5, 0, 6}, SrcMAC: own, Interface: "eth0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := a.Resolve(t.Context(), &tt.req)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.want
			if !want.Dst.IsValid() {
				want.Dst = tt.req.Dst
			}
			if !want.NextHop.IsValid() {
				want.NextHop = want.Dst
			}
			if !want.Src.IsValid() {
				want.Src = got.Src
			}
			if want.SGIDIndex, err = a.GIDIndex(want.Src); err != nil {
				t.Fatal(err)
			}
			want.Device, want.HopLimit, want.LinkMTU, want.PathMTU, want.MTU = "eth0", 64, 4500, 4500, verbs.MTU4096
			want.IfIndex, want.Table, want.Neighbour = got.IfIndex, got.Table, got.Neighbour
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
	for _, tt := range []struct {
		name string
		req  verbs.ResolveRequest
		is   error
		says string
	}{
		{"another interface", verbs.ResolveRequest{Dst: addr("192.0.4.9"), Interface: "tail"}, datapath.ErrNoDevice, "tail, which is neither eth0 nor on top of it"},
		{"another's address", verbs.ResolveRequest{Dst: addr("192.0.4.1")}, datapath.ErrNoRoute, "of tail, not of eth0"},
		{"another's source", verbs.ResolveRequest{Dst: hosts.B.IPv4, Src: addr("192.0.4.1")}, datapath.ErrNoSource, "no address of eth0, which has 0: fe80::"},
		{"no route", verbs.ResolveRequest{Dst: addr("203.0.113.1")}, datapath.ErrNoRoute, "through eth0"},
		{"silent", verbs.ResolveRequest{Dst: addr("192.0.2.99")}, datapath.ErrNoNeighbour, "on eth0 within"},
		{"families", verbs.ResolveRequest{Dst: hosts.B.IPv4, Src: hosts.A.IPv6}, verbs.ErrInvalid, "different families"},
		{"nothing", verbs.ResolveRequest{}, verbs.ErrInvalid, "no address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if _, err := a.Resolve(ctx, &tt.req); !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %v: %q", err, tt.is, tt.says)
			}
		})
	}
}

// waitAsked waits until the kernel of a host asks for a peer.
func waitAsked(t *testing.T, e *netns.End, peer netip.Addr) {
	t.Helper()
	h, err := e.NS.Handle()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	waitFor(t, "a question for the peer", func() bool {
		list, err := h.NeighList(e.Ifindex, netlink.FAMILY_V4)
		return err == nil && slices.ContainsFunc(list, func(n netlink.Neigh) bool { return n.IP.Equal(peer.AsSlice()) })
	})
}

// Closing the device ends a wait for a peer that does not answer.
func TestNetnsResolveEndsWithDevice(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{NoIPv6: true})
	a := openIn(t, hosts.A, nil)
	ended := make(chan error, 1)
	go func() {
		_, err := a.Resolve(t.Context(), &verbs.ResolveRequest{Dst: netip.MustParseAddr("192.0.2.99")})
		ended <- err
	}()
	waitAsked(t, hosts.A, netip.MustParseAddr("192.0.2.99"))
	begun := time.Now()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, verbs.ErrClosed) || time.Since(begun) > 2500*time.Millisecond { // the kernel asks for three seconds
		t.Errorf("%v, after %v", err, time.Since(begun))
	}
}

// A device that is closed while somebody waits for a neighbour ends that wait at once, also
// when its Close waits for who waits.
func TestNetnsCloseEndsResolution(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{})
	a := openIn(t, hosts.A, nil)
	pd, err := a.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	index, err := a.GIDIndex(hosts.A.IPv4)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan error, 1)
	undo, err := a.BeforeClose(func() { asked <- <-asked })
	if err != nil {
		t.Fatal(err)
	}
	defer undo()
	nobody := netip.MustParseAddr("192.0.2.77")
	go func() {
		_, err := pd.CreateAH(&verbs.AddressVector{DGID: verbs.GID(nobody.As16()), SGIDIndex: index, Port: 1, HopLimit: 1})
		asked <- err
	}()
	waitAsked(t, hosts.A, nobody)
	began := time.Now()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 2500*time.Millisecond {
		t.Errorf("closing took %v", took)
	}
	if err := <-asked; !errors.Is(err, datapath.ErrClosed) {
		t.Errorf("the way of a datagram: %v", err)
	}
}
