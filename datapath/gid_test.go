package datapath

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// owns are own addresses as "10.0.0.1" or, in a VLAN, "10.0.0.1@5"; "-" is a hole.
func owns(list ...string) (out []ownAddr) {
	for _, s := range list {
		var a ownAddr
		if s != "-" {
			addr, vlan, _ := strings.Cut(s, "@")
			a.addr, a.oif = netip.MustParseAddr(addr), 1
			if v, err := strconv.Atoi(vlan); err == nil {
				a.vlan, a.oif = uint16(v), v
			}
		}
		out = append(out, a)
	}
	return out
}

func places(list ...string) (out []place) {
	for _, a := range owns(list...) {
		out = append(out, a.place)
	}
	return out
}

// TestGIDTable follows a table through changes of the interface's addresses.
func TestGIDTable(t *testing.T) {
	conformance.Rule(t, "4.1-3", "4.1-4")
	var table gidTable
	for _, step := range []struct {
		name           string
		now            []string
		table          []string // "-" is a hole
		added, removed []string
	}{
		{"link-local comes first", []string{"10.0.0.1", "fd00::1", "fe80::1"},
			[]string{"fe80::1", "10.0.0.1", "fd00::1"}, []string{"fe80::1", "10.0.0.1", "fd00::1"}, nil},
		{"nothing new", []string{"fe80::1", "10.0.0.1", "fd00::1"}, []string{"fe80::1", "10.0.0.1", "fd00::1"}, nil, nil},
		{"one goes and leaves a hole", []string{"fe80::1", "fd00::1"}, []string{"fe80::1", "-", "fd00::1"}, nil, []string{"10.0.0.1"}},
		{"new ones take the hole, then the end", []string{"fe80::1", "fd00::1", "10.0.0.2", "10.0.0.3"},
			[]string{"fe80::1", "10.0.0.2", "fd00::1", "10.0.0.3"}, []string{"10.0.0.2", "10.0.0.3"}, nil},
		{"one goes as another comes", []string{"10.0.0.2", "fd00::1", "fd00::2", "10.0.0.3"},
			[]string{"fd00::2", "10.0.0.2", "fd00::1", "10.0.0.3"}, []string{"fd00::2"}, []string{"fe80::1"}},
		{"the same in a VLAN is another", []string{"10.0.0.2", "10.0.0.2@5"}, []string{"10.0.0.2@5", "10.0.0.2", "-", "-"},
			[]string{"10.0.0.2@5"}, []string{"fd00::2", "fd00::1", "10.0.0.3"}},
		{"all go", nil, []string{"-", "-", "-", "-"}, nil, []string{"10.0.0.2@5", "10.0.0.2"}},
	} {
		added, removed := table.update(owns(step.now...))
		if !slices.Equal(table.entries, owns(step.table...)) || !slices.Equal(added, places(step.added...)) ||
			!slices.Equal(removed, places(step.removed...)) {
			t.Fatalf("%s: table %v, added %v, removed %v", step.name, table.entries, added, removed)
		}
	}
	if table.has(netip.Addr{}) {
		t.Error("a hole is an address")
	}
}

func TestGIDTableIsBounded(t *testing.T) {
	var many []ownAddr
	a := netip.MustParseAddr("10.0.0.1")
	for range gidTableLen + 5 {
		many = append(many, ownAddr{place: place{addr: a, oif: 1}})
		a = a.Next()
	}
	var table gidTable
	if added, _ := table.update(many); len(added) != gidTableLen {
		t.Errorf("%d entries, want %d", len(added), gidTableLen)
	}
	for _, i := range []int{-1, gidTableLen} {
		if _, ok := table.at(i); ok {
			t.Errorf("index %d is an address", i)
		}
	}
}

func TestGIDEncoding(t *testing.T) {
	for _, tt := range []struct {
		addr string
		gid  ibv.GID
	}{
		{"192.0.2.1", ibv.GID{10: 0xff, 11: 0xff, 12: 192, 13: 0, 14: 2, 15: 1}},
		{"fe80::5", ibv.GID{0: 0xfe, 1: 0x80, 15: 5}},
	} {
		a := netip.MustParseAddr(tt.addr)
		if got := gidOf(a); got != tt.gid {
			t.Errorf("GID of %s is %x", a, got)
		}
		if got := addrOf(tt.gid); got != a {
			t.Errorf("address of %x is %s", tt.gid, got)
		}
	}
}

func TestActiveMTU(t *testing.T) {
	conformance.Rule(t, "4.4-1", "4.4-2", "4.4-3", "4.4-4", "4.4-5")
	for _, tt := range []struct {
		link int
		want ibv.MTU
	}{
		{68, 0}, {335, 0}, {336, ibv.MTU256}, {591, ibv.MTU256}, {592, ibv.MTU512}, {1103, ibv.MTU512}, {1104, ibv.MTU1024},
		{1500, ibv.MTU1024}, {2127, ibv.MTU1024}, {2128, ibv.MTU2048}, {4175, ibv.MTU2048}, {4176, ibv.MTU4096}, {9000, ibv.MTU4096}, {65535, ibv.MTU4096},
	} {
		if got := activeMTU(tt.link); got != tt.want {
			t.Errorf("link MTU %d carries %v, want %v", tt.link, got, tt.want)
		}
	}
}
