package transport

import "github.com/roce-xdp/roce-xdp/internal/ibv"

// CheckAddress checks the address vector of an address handle as Modify checks
// that of a connection. self is the address of entry AV.SGIDIndex of the port's
// GID table, zero when the entry is not in use. Errors: ErrAttrValue.
func CheckAddress(av *ibv.AddressVector, self ibv.GID) error { return checkAV(av, self, av.DGID) }
