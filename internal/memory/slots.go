package memory

import "sync/atomic"

// slots are what keys lead to, by index. They come in pages that are made when the
// first of their keys is given out, so that a table for a million regions costs
// nothing while it has few.
type slots struct {
	pages []atomic.Pointer[slotPage]
	limit uint32 // indices are 1 to limit
}

const (
	pageBits = 10
	pageMask = 1<<pageBits - 1
)

type slotPage struct {
	region [1 << pageBits]atomic.Pointer[Region] // nil: free, revoked or not bound
	// Guarded by the table's lock.
	owner [1 << pageBits]*Region // who has the slot, revoked or not; nil for an alias
	keys  [1 << pageBits]keySeq  // the low byte of keys
}

func newSlots(limit int) slots {
	return slots{pages: make([]atomic.Pointer[slotPage], limit>>pageBits+1), limit: uint32(limit)}
}

// find is the region of key, or nil.
func (s *slots) find(key uint32) *Region {
	i := key >> 8
	if int(i>>pageBits) >= len(s.pages) {
		return nil
	}
	page := s.pages[i>>pageBits].Load()
	if page == nil {
		return nil
	}
	r := page.region[i&pageMask].Load()
	if r == nil || r.key != key {
		return nil
	}
	return r
}

// page is the page of an index up to the limit. The table's lock is held, or a key
// with this index was given out.
func (s *slots) page(index uint32) *slotPage {
	at := &s.pages[index>>pageBits]
	p := at.Load()
	if p == nil {
		p = new(slotPage)
		at.Store(p)
	}
	return p
}

// at is what an index leads to.
func (s *slots) at(index uint32) *atomic.Pointer[Region] {
	return &s.page(index).region[index&pageMask]
}

// owner is who has an index. The table's lock is held.
func (s *slots) owner(index uint32) **Region { return &s.page(index).owner[index&pageMask] }

// keys makes the keys of an index. The table's lock is held.
func (s *slots) keys(index uint32) *keySeq { return &s.page(index).keys[index&pageMask] }
