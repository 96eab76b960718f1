package verbs

import "runtime"

// Rereg changes what flags name of a region (ibv_rereg_mr): with ReregTranslation its
// memory, to b, with ReregPD its protection domain, with ReregAccess its rights; what
// they do not name is ignored. Peers and work requests may use the region meanwhile:
// an access finds what it was or what it becomes. When Rereg returns nothing of what
// it was is in use any more.
//
// With new memory the keys are new too, so that nobody reaches that with an old one;
// else they stay. On an error the region is what it was: ErrInvalid; ErrBusy while
// memory windows or FastMRs have bytes of it; ErrClosed. The memory of an implicit
// region cannot change.
func (m *MR) Rereg(flags ReregFlags, pd *PD, b []byte, access Access) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	old := m.now.Load()
	if err := m.rereg(old, flags, pd, b, access); err != nil {
		return opErr("reregister memory", old.pd.name(), err)
	}
	return nil
}

func (m *MR) rereg(old *mrState, flags ReregFlags, pd *PD, b []byte, access Access) error {
	if m.gone {
		return ErrClosed
	}
	next := *old
	c := ProviderRereg{Flags: flags}
	if flags&ReregTranslation != 0 {
		next.buf, c.Buf = b, b
	}
	if flags&ReregPD != 0 {
		if pd == nil || pd.ctx != old.pd.ctx {
			return invalid("ReregPD needs a protection domain of the same device")
		}
		next.pd, c.PD = pd, pd.handle
	}
	if flags&ReregAccess != 0 {
		next.access, c.Access = access, access
	}
	switch {
	case flags == 0 || flags&^(ReregTranslation|ReregPD|ReregAccess) != 0:
		return invalid("flags %#x: at least one of ReregTranslation, ReregPD and ReregAccess is needed", uint8(flags))
	case flags&ReregTranslation != 0 && old.buf == nil:
		return invalid("an implicit region has no memory that could change")
	case flags&ReregTranslation != 0 && len(b) == 0:
		return invalid("an empty buffer has no address")
	}
	if err := checkRights(next.access); err != nil {
		return err
	}
	unlock := lockBoth(old.pd, next.pd)
	defer unlock()
	if next.pd.gone {
		return ErrClosed
	}
	pin := m.pin
	if flags&ReregTranslation != 0 {
		pin = pinned(b)
	}
	var err error
	if next.p, err = old.pd.ctx.p.ReregisterMemory(old.p, &c); err != nil {
		m.unpinOther(pin)
		return err
	}
	delete(old.pd.mrs, old.p.LKey)
	next.pd.mrs[next.p.LKey] = m
	m.now.Store(&next)
	pin, m.pin = m.pin, pin
	m.unpinOther(pin)
	return nil
}

// unpinOther lets go of memory that is not the region's.
func (m *MR) unpinOther(pin *runtime.Pinner) {
	if pin != m.pin {
		pin.Unpin()
	}
}

// lockBoth locks two domains, which may be one, in an order that all keep to.
func lockBoth(a, b *PD) (unlock func()) {
	if a.handle > b.handle {
		a, b = b, a
	}
	a.mu.Lock()
	if a == b {
		return a.mu.Unlock
	}
	b.mu.Lock()
	return func() { b.mu.Unlock(); a.mu.Unlock() }
}

// Advise has pages that sges name, which are of regions of the domain, brought into
// memory (ibv_advise_mr), so that the first access does not wait for it, and returns
// when they are there: with AdvisePrefetch to be read, with AdvisePrefetchWrite to be
// written, for which the regions need AccessLocalWrite. AdvisePrefetchNoFault, which
// fills page tables of adapters, only checks the entries. Errors: ErrInvalid for what
// is not in a region; unix.EFAULT, ENOMEM and the like for pages that are missing.
func (pd *PD) Advise(advice Advice, sges []SGE) error {
	if advice > AdvisePrefetchNoFault {
		return opErr("advise", pd.name(), invalid("advice %d: 0 to 2 are known", advice))
	}
	return opErr("advise", pd.name(), pd.ctx.p.AdviseMemory(pd.handle, advice, sges))
}
