package datapath

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// A device without a kernel behind it knows the peers that its routes know, and
// those of addresses in VLANs of options.
func TestResolveWithoutKernel(t *testing.T) {
	tagged, far := netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")
	r := newRig(t, rigOptions{opts: Options{VLANAddrs: []VLANAddr{{Addr: tagged, VLAN: 7, Neighbors: neighbours(far, macB)}}}})
	base := verbs.Resolution{
		Src: addrA, Interface: r.a.link.name, Device: r.a.link.name, IfIndex: r.a.link.index,
		SrcMAC: macA, DstMAC: macB, HopLimit: 64, LinkMTU: r.a.link.mtu, PathMTU: r.a.link.mtu, MTU: verbs.MTU4096,
	}
	with := func(change func(*verbs.Resolution)) verbs.Resolution {
		w := base
		change(&w)
		return w
	}
	group := netip.MustParseAddr("233.252.0.9")
	for _, tt := range []struct {
		name string
		req  verbs.ResolveRequest
		want verbs.Resolution
	}{
		{"peer", verbs.ResolveRequest{Dst: addrB}, with(func(w *verbs.Resolution) { w.Dst = addrB })},
		{"itself", verbs.ResolveRequest{Dst: addrA}, with(func(w *verbs.Resolution) { w.Dst, w.DstMAC, w.Local = addrA, macA, true })},
		{"itself from another of its addresses", verbs.ResolveRequest{Dst: addrA, Src: tagged}, with(func(w *verbs.Resolution) {
			w.Dst, w.Src, w.SGIDIndex, w.VLAN, w.DstMAC, w.Local = addrA, tagged, 1, 7, macA, true
		})},
		{"in a VLAN", verbs.ResolveRequest{Dst: far, Src: tagged}, with(func(w *verbs.Resolution) { w.Dst, w.Src, w.SGIDIndex, w.VLAN = far, tagged, 1, 7 })},
		{"group", verbs.ResolveRequest{Dst: group}, with(func(w *verbs.Resolution) { w.Dst, w.DstMAC = group, [6]byte{1, 0, 0x5e, 0x7c, 0, 9} })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.NextHop = tt.want.Dst
			got, err := r.ca.Resolve(t.Context(), &tt.req)
			if err != nil || got != tt.want {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, tt.want)
			}
		})
	}
	for _, tt := range []struct {
		name string
		req  verbs.ResolveRequest
		is   error
		says string
	}{
		{"silent", verbs.ResolveRequest{Dst: netip.MustParseAddr("192.0.2.9")}, ErrNoNeighbour, "192.0.2.9"},
		{"a peer that is not named", verbs.ResolveRequest{Dst: far.Next(), Src: tagged}, ErrNoNeighbour, "VLANAddr.Neighbors"},
		{"another's source", verbs.ResolveRequest{Dst: addrB, Src: addrB}, ErrNoSource, "is no address of"},
		{"no address of the family", verbs.ResolveRequest{Dst: netip.MustParseAddr("2001:db8::1")}, ErrNoSource, "to reach 2001:db8::1 from"},
		{"loopback of another family", verbs.ResolveRequest{Dst: netip.IPv6Loopback()}, ErrNoSource, "to stand for ::1"},
		{"any address", verbs.ResolveRequest{Dst: netip.IPv4Unspecified()}, ErrInvalid, "not the address of a peer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := r.ca.Resolve(t.Context(), &tt.req); !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %v: %q", err, tt.is, tt.says)
			}
		})
	}
	r.a.closed.Store(true)
	_, err := r.a.Resolve(t.Context(), &verbs.ResolveRequest{Dst: addrB})
	r.a.closed.Store(false)
	if !errors.Is(err, ErrClosed) {
		t.Errorf("a closed device: %v", err)
	}
}
