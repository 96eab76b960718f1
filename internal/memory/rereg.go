package memory

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// Change is what Reregister changes of a region. Flags say which fields count.
type Change struct {
	Flags   ibv.ReregFlags
	PD      PD         // with ReregPD
	VA      uint64     // with ReregTranslation: first virtual address,
	Data    []byte     // and the memory, that of Register or, with ON_DEMAND, of RegisterOnDemand,
	Foreign bool       // or of RegisterRevocable,
	Ind     Indirect   // or, if set, of RegisterIndirect,
	Len     uint64     // with as many bytes
	Access  ibv.Access // with ReregAccess
}

// Reregister puts another region in the place of r and returns it (IBTA vol. 1,
// 11.2.8.5). An access finds the one or the other. With a change of translation the
// key is another, so that who has the old one does not reach the new memory; else it
// stays. As with Deregister, who has found r before may still use it. On an error r
// is what it was: ErrNotRegistered, ErrAccess, ErrRange, and ErrBound while aliases
// have bytes of r.
func (t *Table) Reregister(r *Region, c *Change) (*Region, error) {
	if r == nil || r.table != t {
		return nil, fmt.Errorf("%w in this table", ErrNotRegistered)
	}
	n := &Region{
		start: r.start, length: r.length, key: r.key, pd: r.pd, access: r.Access(),
		kind: r.kind, data: r.data, ind: r.ind, shift: r.shift, foreign: r.foreign, table: t,
	}
	moves := c.Flags&ibv.ReregTranslation != 0
	switch {
	case !moves:
	case r.implicit():
		return nil, fmt.Errorf("%w: the region has no memory of its own that could change", ErrRange)
	case c.Ind != nil:
		n.kind, n.ind, n.data, n.foreign, n.start, n.length = indirect, c.Ind, nil, false, c.VA, c.Len
	default:
		n.kind, n.ind, n.data, n.foreign, n.start, n.length = direct, nil, c.Data, c.Foreign, c.VA, uint64(len(c.Data))
	}
	if c.Flags&ibv.ReregPD != 0 {
		n.pd = c.PD
	}
	if c.Flags&ibv.ReregAccess != 0 {
		n.access = c.Access
	}
	if err := n.check(); err != nil {
		return nil, err
	}
	n.adapt()
	n.access |= rightLocal
	return n, t.replace(r, n, moves)
}

// replace gives n the slot of r, and another key if rekey.
func (t *Table) replace(r, n *Region, rekey bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	index := r.key >> 8
	switch owner := t.owner(index); {
	case *owner != r:
		return fmt.Errorf("%w: key %#08x was deregistered before", ErrNotRegistered, r.key)
	case r.bound != 0:
		return boundErr(r.bound)
	default:
		*owner = n
	}
	if rekey {
		n.key = index<<8 | uint32(t.keys(index).next())
		t.at(index).Store(n)
		return nil
	}
	// Memory that has gone away does not come back with other rights. It may go at
	// any moment: who revokes r marks it first.
	n.gone.Store(r.gone.Load())
	if !n.gone.Load() && !t.at(index).CompareAndSwap(r, n) {
		n.gone.Store(true)
	}
	return nil
}
