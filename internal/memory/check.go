package memory

import "github.com/roce-xdp/roce-xdp/internal/ibv"

// Fault says why an access was refused (IBTA vol. 1, 10.6.3).
type Fault uint8

// Faults, in the order of the checks.
const (
	FaultNone   Fault = iota
	FaultKey          // the key names no region
	FaultPD           // the region is of another protection domain
	FaultAccess       // a right is missing
	FaultRange        // bytes outside the region
)

// String says the fault in words.
func (f Fault) String() string {
	switch f {
	case FaultNone:
		return "none"
	case FaultKey:
		return "no region has this key"
	case FaultPD:
		return "region of another protection domain"
	case FaultAccess:
		return "access right missing"
	case FaultRange:
		return "outside the region"
	}
	return "unknown fault"
}

// Access finds the region of key and checks that a queue pair of domain pd may
// use the n bytes at va with all rights of need. Gathering needs no right,
// scattering LOCAL_WRITE. It takes no lock and does not allocate.
//
// A request of no bytes is not checked at all by the rules of the transport
// (IBTA vol. 1, 9.7.4.1.5): callers do not ask then.
func (t *Table) Access(key uint32, pd PD, need ibv.Access, va, n uint64) (*Region, bool) {
	r := t.find(key)
	if r == nil || r.pd != pd || need&^r.access != 0 || !r.covers(va, n) {
		return nil, false
	}
	return r, true
}

// Check is Access with the reason of a refusal.
func (t *Table) Check(key uint32, pd PD, need ibv.Access, va, n uint64) (*Region, Fault) {
	r := t.find(key)
	switch {
	case r == nil:
		return nil, FaultKey
	case r.pd != pd:
		return nil, FaultPD
	case need&^r.access != 0:
		return nil, FaultAccess
	case !r.covers(va, n):
		return nil, FaultRange
	}
	return r, FaultNone
}

func (t *Table) find(key uint32) *Region {
	i := key >> 8
	if int(i) >= len(t.slots) {
		return nil
	}
	r := t.slots[i].Load()
	if r == nil || r.key != key {
		return nil
	}
	return r
}
