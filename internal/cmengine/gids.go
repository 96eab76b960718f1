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

// addrOf is the address of an entry, with its interface where that tells two apart.
func addrOf(e *verbs.GIDEntry) netip.Addr { return ibv.WithScope(e.GID.Addr(), uint32(e.IfIndex)) }

// isAt says whether an entry is that of an address, which is on any interface unless it
// names one.
func isAt(e *verbs.GIDEntry, a netip.Addr) bool {
	return e.GID == ibv.GIDOf(a) && (a.Zone() == "" || addrOf(e) == a)
}

func has(gids []verbs.GIDEntry, a netip.Addr) bool {
	return slices.ContainsFunc(gids, func(e verbs.GIDEntry) bool { return isAt(&e, a) })
}

// IndexOf is the GID index of an address in a VLAN, 0 being none; -1 if the device does not
// have it there.
func IndexOf(gids []verbs.GIDEntry, a netip.Addr, vlan uint16) int {
	for i := range gids {
		if isAt(&gids[i], a) && gids[i].VLAN == vlan {
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
		s[i] = addrOf(&e).String()
	}
	return strings.Join(s, ", ")
}
