package memory

import (
	"math"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// ImplicitLen is the size of an implicit region, which begins at address 0: half of
// the 64-bit addresses, in which all user memory lies.
const ImplicitLen = math.MaxInt64

// RegisterOnDemand is Register for memory of which pages may be missing now and
// come later, with ON_DEMAND among the rights. An access that meets a missing page
// fails like one outside of the region, though bytes before that page may have been
// copied, and leaves the region as it is. Accesses are slower by the price of Guard;
// atomics work.
func (t *Table) RegisterOnDemand(pd PD, va uint64, data []byte, access ibv.Access) (*Region, error) {
	return t.add(&Region{pd: pd, start: va, length: uint64(len(data)), data: data, access: access | ibv.AccessOnDemand})
}

// RegisterImplicit makes all addresses below ImplicitLen, which ind reaches, one
// region. An error of ind fails the access and leaves the region as it is. Refused
// with ErrAccess are REMOTE_ATOMIC, as ind has no atomics, and MW_BIND, as windows
// are not for what is everything.
func (t *Table) RegisterImplicit(pd PD, ind Indirect, access ibv.Access) (*Region, error) {
	return t.add(&Region{kind: indirect, pd: pd, length: ImplicitLen, ind: ind, access: access})
}
