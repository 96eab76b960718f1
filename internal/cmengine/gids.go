package cmengine

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// notOurs says that an address is not one of the device.
func notOurs(a netip.Addr, gids []verbs.GIDEntry) error {
	return fmt.Errorf("%w: %s is not an address of the device, which has %s", verbs.ErrNoSource, a, list(gids))
}

func has(gids []verbs.GIDEntry, a netip.Addr) bool {
	want := ibv.GIDOf(a)
	return slices.ContainsFunc(gids, func(e verbs.GIDEntry) bool { return e.GID == want })
}

// indexOf is the GID index of an address in a VLAN, 0 being none; -1 if the device does not
// have it there.
func indexOf(gids []verbs.GIDEntry, a netip.Addr, vlan uint16) int {
	want := ibv.GIDOf(a)
	for i := range gids {
		if gids[i].GID == want && gids[i].VLAN == vlan {
			return gids[i].Index
		}
	}
	return -1
}

func list(gids []verbs.GIDEntry) string {
	if len(gids) == 0 {
		return "no address at all: add one with ip address add"
	}
	s := make([]string, len(gids))
	for i, e := range gids {
		s[i] = e.GID.Addr().String()
	}
	return strings.Join(s, ", ")
}

// plain is an address as the machine has it: without zone, IPv4 not mapped.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
