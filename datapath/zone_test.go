package datapath

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// TestResolveZones: a link-local address that the device and an interface on top of it both
// have, as a VLAN interface does that takes the link-layer address of what is below, and
// a peer that is on both.
func TestResolveZones(t *testing.T) {
	own, peer := netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fe80::2")
	r := newRig(t, rigOptions{})
	index := r.a.link.index
	if err := r.a.setOwn([]ownAddr{{place: place{own, index, 0}}, {place: place{addrA, index, 0}}, {place: place{own, upperIndex, 5}}}); err != nil {
		t.Fatal(err)
	}
	r.routes[0].set(peer, macB)
	at := func(a netip.Addr, index int) netip.Addr { return a.WithZone(strconv.Itoa(index)) }
	device, upper := r.a.link.name, strconv.Itoa(upperIndex)
	const below, above = 1, 2 // indices of the two entries
	for _, tt := range []struct {
		name string
		req  verbs.ResolveRequest
		want int
	}{
		{"no zone", verbs.ResolveRequest{Dst: peer}, below},
		{"the device's name", verbs.ResolveRequest{Dst: peer.WithZone(device)}, below},
		{"the device's number", verbs.ResolveRequest{Dst: at(peer, index)}, below},
		{"the number of what is on top", verbs.ResolveRequest{Dst: at(peer, upperIndex)}, above},
		{"named as the interface", verbs.ResolveRequest{Dst: peer, Interface: upper}, above},
		{"the source's", verbs.ResolveRequest{Dst: peer, Src: at(own, upperIndex)}, above},
		{"all", verbs.ResolveRequest{Dst: at(peer, upperIndex), Src: at(own, upperIndex), Interface: upper}, above},
		{"of a peer, from a source without", verbs.ResolveRequest{Dst: at(peer, upperIndex), Src: own}, above},
		{"itself", verbs.ResolveRequest{Dst: own}, below},
		{"itself on top", verbs.ResolveRequest{Dst: at(own, upperIndex)}, above},
		{"itself on top, from there", verbs.ResolveRequest{Dst: at(own, upperIndex), Src: own}, above},
		{"a group on top", verbs.ResolveRequest{Dst: at(netip.MustParseAddr("ff02::5"), upperIndex)}, above},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := r.ca.Resolve(t.Context(), &tt.req)
			if err != nil || got.SGIDIndex != tt.want || got.Src != own || got.VLAN != []uint16{0, 0, 5}[tt.want] ||
				got.IfIndex != []int{0, index, upperIndex}[tt.want] || got.Dst.Zone() != "" {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	for _, tt := range []struct {
		name string
		req  verbs.ResolveRequest
		is   error
		says string
	}{
		{"no such interface", verbs.ResolveRequest{Dst: peer.WithZone("eth7")}, ErrNoDevice, "no interface eth7"},
		{"no such number", verbs.ResolveRequest{Dst: at(peer, 7)}, ErrNoDevice, "no interface 7"},
		{"of an own address", verbs.ResolveRequest{Dst: own.WithZone("eth7")}, ErrNoDevice, "no interface eth7"},
		{"of the source", verbs.ResolveRequest{Dst: peer, Src: own.WithZone("eth7")}, ErrNoDevice, "no interface eth7"},
		{"of an address that needs none", verbs.ResolveRequest{Dst: netip.MustParseAddr("2001:db8::2%eth7")}, ErrNoDevice, "no interface eth7"},
		{"two", verbs.ResolveRequest{Dst: at(peer, upperIndex), Src: own.WithZone(device)}, ErrInvalid, "two interfaces are named, 77 and " + device},
		{"a source that is not there", verbs.ResolveRequest{Dst: netip.MustParseAddr("fe80::3"), Src: netip.MustParseAddr("fe80::9").WithZone(upper)}, ErrNoSource, "fe80::9 is no address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := r.ca.Resolve(t.Context(), &tt.req); !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %v: %q", err, tt.is, tt.says)
			}
		})
	}
	t.Run("of one of the two only", func(t *testing.T) {
		if err := r.a.setOwn([]ownAddr{{place: place{own, index, 0}}, {place: place{addrA, index, 0}}, {place: place{peer.Next(), upperIndex, 5}}}); err != nil {
			t.Fatal(err)
		}
		_, err := r.ca.Resolve(t.Context(), &verbs.ResolveRequest{Dst: own, Src: at(own, upperIndex)})
		if !errors.Is(err, ErrNoSource) || !strings.Contains(err.Error(), "77 does not have the address fe80::1") {
			t.Error(err)
		}
		for zone, want := range map[string]int{"": below, device: below, strconv.Itoa(index): below, upper: -1, "eth7": -1} {
			got, err := r.ca.GIDIndex(own.WithZone(zone))
			if (err == nil) != (want >= 0) || err == nil && got != want {
				t.Errorf("GIDIndex with zone %q: %d, %v", zone, got, err)
			}
		}
	})
}
