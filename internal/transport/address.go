package transport

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// CheckAddress checks the address vector of an address handle as Modify checks
// that of a connection, but for multicast groups, which datagrams may go to. self
// is the address of entry AV.SGIDIndex of the port's GID table, zero when the
// entry is not in use. Errors: ErrAttrValue.
func CheckAddress(av *ibv.AddressVector, self ibv.GID) error { return checkAV(av, self, av.DGID) }

// checkPeer is checkAV for a connection, whose other end is one queue pair.
func checkPeer(av *ibv.AddressVector, self, peer ibv.GID) error {
	if peer.Addr().IsMulticast() {
		return fmt.Errorf("%w: AV.DGID %v is a multicast address", ErrAttrValue, peer)
	}
	return checkAV(av, self, peer)
}
