package memory

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// aliasKind says who may bind an alias and who may use its key.
type aliasKind uint8

const (
	window1 aliasKind = iota // R_Key for all queue pairs of the domain; bound in any state
	window2                  // R_Key for the queue pair that binds it; bound when free
	fast                     // L_Key and R_Key; registered when free
)

// Alias is a key that has bytes of a region only while it is bound to them: a
// memory window, or a region that is registered by a work request. Its index
// stays for its life; each binding brings a new low byte of the key, its tag.
type Alias struct {
	table *Table
	kind  aliasKind
	pd    PD
	limit uint64 // fast: bytes that it can have

	// Guarded by table.mu.
	gone       bool
	key        uint32  // of the last binding, or the first that it got
	view       *Region // what the key leads to, nil when the alias is free
	next, prev *Alias  // window2, bound: others of the same queue pair
}

// AllocWindow makes a memory window of domain pd that is bound to nothing (IBTA
// vol. 1, 10.6.7). Errors: ErrWindowType, ErrFull.
//
// The specification knows type 2 windows that belong to a queue pair number (2A)
// and to number and domain (2B). Bindings end with their queue pair here, see
// UnbindQP, so number and domain never disagree and a window is both.
func (t *Table) AllocWindow(pd PD, typ ibv.MWType) (*Alias, error) {
	switch typ {
	case ibv.MWType1:
		return t.alloc(&Alias{kind: window1, pd: pd})
	case ibv.MWType2:
		return t.alloc(&Alias{kind: window2, pd: pd})
	}
	return nil, fmt.Errorf("%w: there are 1 and 2, not %d", ErrWindowType, uint8(typ))
}

// AllocFast makes a region of domain pd that has no memory until a work request
// registers up to limit bytes of another region with its key (IBTA vol. 1,
// 10.6.3.3). Errors: ErrRange, ErrFull.
func (t *Table) AllocFast(pd PD, limit uint64) (*Alias, error) {
	if limit == 0 {
		return nil, fmt.Errorf("%w: a region for no bytes", ErrRange)
	}
	return t.alloc(&Alias{kind: fast, pd: pd, limit: limit})
}

func (t *Table) alloc(a *Alias) (*Alias, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key, err := t.take()
	if err != nil {
		return nil, err
	}
	a.table, a.key = t, key
	t.aliases[key>>8] = a
	return a, nil
}

// Dealloc frees a, bound or not. Who has found its key before may still use it,
// as with Deregister. Errors: ErrNotRegistered, and ErrBound for a fast-registered
// region that windows are bound to.
func (t *Table) Dealloc(a *Alias) error {
	if a == nil || a.table != t {
		return fmt.Errorf("%w in this table", ErrNotRegistered)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case a.gone:
		return fmt.Errorf("%w: key %#08x was deallocated before", ErrNotRegistered, a.key)
	case a.view != nil && a.view.bound != 0:
		return boundErr(a.view.bound)
	}
	t.unbind(a)
	a.gone = true
	index := a.key >> 8
	delete(t.aliases, index)
	t.keys(index).value = uint8(a.key) // the next owner begins with another tag
	t.giveBack(index)
	return nil
}

// Key is the key of the last binding, or the first key, by which nothing is bound
// yet. It is the L_Key too of a fast-registered region.
func (a *Alias) Key() uint32 {
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	return a.key
}

// PD is the protection domain.
func (a *Alias) PD() PD { return a.pd }
