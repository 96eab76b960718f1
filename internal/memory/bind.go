package memory

import "github.com/roce-xdp/roce-xdp/internal/ibv"

// Binding is what a work request binds an alias to.
type Binding struct {
	Key    uint32     // index of the alias, and a tag that differs from its current one
	LKey   uint32     // the region
	VA     uint64     // first byte, an address of the region
	Len    uint64     // bytes
	Access ibv.Access // rights that the key has; with ZERO_BASED its addresses begin at 0
}

const (
	changes      = ibv.AccessRemoteWrite | ibv.AccessRemoteAtomic
	windowRights = changes | ibv.AccessRemoteRead | ibv.AccessZeroBased | ibv.AccessFlushGlobal
)

// BindWindow binds the memory window of b.Key for queue pair qpn of domain pd and
// reports whether it did; if not, nothing has changed. The rules are those of IBTA
// vol. 1, 10.6.7.2 and 11.2.13: window, region and queue pair are of one domain;
// the region has MW_BIND, is not zero-based, holds the range, and has LOCAL_WRITE
// if the window can change memory. A window of type 1 may be bound already, cannot
// be zero-based, and is free after a binding of no bytes; one of type 2 must be
// free, and gets bytes.
func (t *Table) BindWindow(pd PD, qpn uint32, b *Binding) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.rebindable(pd, b.Key)
	switch {
	case a == nil || a.kind == fast || b.Access&^windowRights != 0:
		return false
	case a.kind == window2 && (a.view != nil || b.Len == 0):
		return false
	case a.kind == window1 && b.Access&ibv.AccessZeroBased != 0:
		return false
	case b.Len == 0:
		t.unbind(a)
		a.key = b.Key
		return true
	}
	base := t.source(pd, b)
	if base == nil || base.access&ibv.AccessMWBind == 0 || base.access&ibv.AccessZeroBased != 0 {
		return false
	}
	t.unbind(a)
	if a.kind == window1 {
		qpn = 0
	}
	t.bind(a, base, qpn, b)
	return true
}

// RegisterFast gives the fast-registered region of b.Key, which must be free, its
// range and rights, and reports whether it did; if not, nothing has changed. The
// memory is that of a region of the same domain, so that nothing can be named that
// was not registered, and gets no rights to change memory that this lacks. The
// region itself cannot be deregistered before the key is invalidated.
func (t *Table) RegisterFast(pd PD, b *Binding) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.rebindable(pd, b.Key)
	if a == nil || a.kind != fast || a.view != nil || b.Len == 0 || b.Len > a.limit || checkAccess(b.Access) != nil {
		return false
	}
	base := t.source(pd, b)
	if base == nil {
		return false
	}
	c := *b
	c.Access |= rightLocal
	t.bind(a, base, 0, &c)
	return true
}

// rebindable is the alias that key may become the key of, or nil.
func (t *Table) rebindable(pd PD, key uint32) *Alias {
	a := t.aliases[key>>8]
	if a == nil || a.pd != pd || a.key == key {
		return nil
	}
	return a
}

// source is the region that an alias may be bound to as b says, or nil.
func (t *Table) source(pd PD, b *Binding) *Region {
	base, ok := t.Access(b.LKey, pd, b.Access&ibv.AccessFlushGlobal, b.VA, b.Len)
	switch {
	case !ok:
		return nil
	case b.Access&(changes|ibv.AccessLocalWrite) != 0 && base.access&ibv.AccessLocalWrite == 0:
		return nil
	case b.Access&ibv.AccessRemoteAtomic != 0 && base.kind == indirect:
		return nil
	}
	return base
}

func (t *Table) bind(a *Alias, base *Region, qpn uint32, b *Binding) {
	v := &Region{
		start: b.VA, length: b.Len, key: b.Key, pd: a.pd, access: b.Access, qpn: qpn,
		kind: base.kind, ind: base.ind, shift: base.shift, lasting: base.lasting, table: t, base: base,
	}
	if base.kind != indirect {
		off := b.VA - base.start
		v.data = base.data[off : off+b.Len : off+b.Len]
	}
	if b.Access&ibv.AccessZeroBased != 0 {
		v.start = 0
		v.shift += b.VA
	}
	base.bound++
	a.key, a.view = b.Key, v
	t.link(a)
	t.at(b.Key >> 8).Store(v)
}

// unbind makes a free. Its key, which it keeps so that the next binding has
// another, leads nowhere.
func (t *Table) unbind(a *Alias) {
	v := a.view
	if v == nil {
		return
	}
	t.unlink(a)
	t.unpublish(v)
	v.base.bound--
	a.view = nil
}

// Invalidate makes the alias of key free and reports whether it did: key is the
// current key of a bound window of type 2, or of a fast-registered region that no
// window is bound to, in domain pd (IBTA vol. 1, 10.6.5, 10.8.3.4).
func (t *Table) Invalidate(key uint32, pd PD) bool { return t.invalidate(key, pd, 0) }

// InvalidateRemote is Invalidate for a peer's request on queue pair qpn: of the
// windows only those that this has bound.
func (t *Table) InvalidateRemote(key uint32, pd PD, qpn uint32) bool {
	return t.invalidate(key, pd, qpn)
}

func (t *Table) invalidate(key uint32, pd PD, peerOf uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.aliases[key>>8]
	switch {
	case a == nil || a.key != key || a.view == nil || a.pd != pd || a.kind == window1:
		return false
	case a.view.bound != 0:
		return false
	case peerOf != 0 && a.view.qpn != 0 && a.view.qpn != peerOf:
		return false
	}
	t.unbind(a)
	return true
}

// UnbindQP makes the windows of type 2 free that queue pair qpn has bound: its
// number may soon be another's. Nothing binds more of them meanwhile. The lock is given
// back now and then: there may be many, and workers wait for it.
func (t *Table) UnbindQP(qpn uint32) {
	for t.unbindSome(qpn) {
	}
}

const unbindAtOnce = 256

// unbindSome does a part of it and reports whether there may be more.
func (t *Table) unbindSome(qpn uint32) (more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for range unbindAtOnce {
		a := t.byQP[qpn]
		if a == nil {
			return false
		}
		t.unbind(a)
	}
	return true
}

// link puts a bound window of type 2 in the list of its queue pair.
func (t *Table) link(a *Alias) {
	qpn := a.view.qpn
	if qpn == 0 {
		return
	}
	if a.next = t.byQP[qpn]; a.next != nil {
		a.next.prev = a
	}
	t.byQP[qpn] = a
}

func (t *Table) unlink(a *Alias) {
	qpn := a.view.qpn
	if qpn == 0 {
		return
	}
	switch {
	case a.prev != nil:
		a.prev.next = a.next
	case a.next != nil:
		t.byQP[qpn] = a.next
	default:
		delete(t.byQP, qpn)
	}
	if a.next != nil {
		a.next.prev = a.prev
	}
	a.next, a.prev = nil, nil
}
