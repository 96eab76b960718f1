package cmengine

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// notOurs says that an address is not one of the device.
func notOurs(a netip.Addr, gids []verbs.GIDEntry) error {
	return fmt.Errorf("%w: %s is not an address of the device, which has %s", verbs.ErrNoSource, a, list(gids))
}

func has(gids []verbs.GIDEntry, a netip.Addr) bool { return indexOf(gids, a) >= 0 }

// indexOf is the GID index of an address, that without a VLAN first; -1 if the
// device does not have it.
func indexOf(gids []verbs.GIDEntry, a netip.Addr) int {
	want, best := ibv.GIDOf(a), -1
	for i := range gids {
		switch e := &gids[i]; {
		case e.GID != want:
		case e.VLAN == 0:
			return e.Index
		case best < 0:
			best = e.Index
		}
	}
	return best
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
