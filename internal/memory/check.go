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
	FaultQP           // the window is bound to another queue pair
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
	case FaultQP:
		return "window of another queue pair"
	case FaultRange:
		return "outside the region"
	}
	return "unknown fault"
}

// Access finds the region of an L_Key and checks that a queue pair of domain pd
// may use the n bytes at va with all rights of need. Gathering needs no right,
// scattering LOCAL_WRITE; no window has an L_Key. It takes no lock and does not
// allocate.
//
// A request of no bytes is not checked at all by the rules of the transport
// (IBTA vol. 1, 9.7.4.1.5): callers do not ask then.
func (t *Table) Access(key uint32, pd PD, need ibv.Access, va, n uint64) (*Region, bool) {
	r := t.find(key)
	if r == nil || r.pd != pd || (need|rightLocal)&^r.access != 0 || !r.covers(va, n) {
		return nil, false
	}
	return r, true
}

// AccessRemote is Access for an R_Key that a peer's request on queue pair qpn
// names: a window of type 2 serves only the queue pair that has bound it (IBTA
// vol. 1, 10.6.7.2).
func (t *Table) AccessRemote(key uint32, pd PD, qpn uint32, need ibv.Access, va, n uint64) (*Region, bool) {
	r := t.find(key)
	if r == nil || r.pd != pd || r.qpn != 0 && r.qpn != qpn || need&^r.access != 0 || !r.covers(va, n) {
		return nil, false
	}
	return r, true
}

// Check is Access with the reason of a refusal.
func (t *Table) Check(key uint32, pd PD, need ibv.Access, va, n uint64) (*Region, Fault) {
	return t.CheckRemote(key, pd, 0, need|rightLocal, va, n)
}

// CheckRemote is AccessRemote with the reason of a refusal.
func (t *Table) CheckRemote(key uint32, pd PD, qpn uint32, need ibv.Access, va, n uint64) (*Region, Fault) {
	r := t.find(key)
	switch {
	case r == nil:
		return nil, FaultKey
	case r.pd != pd:
		return nil, FaultPD
	case need&^r.access != 0:
		return nil, FaultAccess
	case r.qpn != 0 && r.qpn != qpn:
		return nil, FaultQP
	case !r.covers(va, n):
		return nil, FaultRange
	}
	return r, FaultNone
}
