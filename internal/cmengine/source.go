package cmengine

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Errors of addresses; test with errors.Is.
var (
	// ErrNoSource: the device has no address to reach the destination from.
	ErrNoSource = errors.New("no source address")
	// ErrNotOurs: the address is not one of the device.
	ErrNotOurs = errors.New("not an address of the device")
)

// maxSources bounds how many own addresses are tried for one destination.
const maxSources = 4

// sources are the own addresses from which dst may be reached, the best first. The
// kernel's routes decide between them: this is the order in which it is asked.
func sources(gids []verbs.GIDEntry, src, dst netip.Addr) ([]netip.Addr, error) {
	if src.IsValid() && !src.IsUnspecified() {
		if !has(gids, src) {
			return nil, fmt.Errorf("%w: %s; it has %s", ErrNotOurs, src, list(gids))
		}
		if src.Is4() != dst.Is4() {
			return nil, fmt.Errorf("%w: %s and %s are of different families", ErrNoSource, src, dst)
		}
		return []netip.Addr{src}, nil
	}
	if has(gids, dst) {
		return []netip.Addr{dst}, nil
	}
	var out []netip.Addr
	for _, e := range gids {
		a := e.GID.Addr()
		// A link-local address reaches its link, and what is beyond answers to none.
		if a.Is4() == dst.Is4() && a.IsLinkLocalUnicast() == dst.IsLinkLocalUnicast() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w for %s: the device has %s", ErrNoSource, dst, list(gids))
	}
	// The longest common prefix is most likely the same network (RFC 6724, rule 8).
	slices.SortStableFunc(out, func(a, b netip.Addr) int { return common(b, dst) - common(a, dst) })
	return out[:min(len(out), maxSources)], nil
}

// common is the number of leading bits that two addresses share.
func common(a, b netip.Addr) int {
	x, y := a.As16(), b.As16()
	for i := range x {
		if d := x[i] ^ y[i]; d != 0 {
			return i*8 + bits.LeadingZeros8(d)
		}
	}
	return len(x) * 8
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
