package xsktest

import "github.com/roce-xdp/roce-xdp/datapath/xsk"

// Kick transmits what is queued: it is in the peer's receive ring, or counted
// as dropped there, and completed here when Kick returns. Frames stay queued
// while the completion ring is full, and beyond Config.TxBudget.
func (p *Port) Kick() error {
	if p.tx.user.Pending() == 0 {
		return nil
	}
	p.stats.kicks.Add(1)
	if err := p.usable(); err != nil {
		p.stats.kickFail.Add(1)
		return err
	}
	for sent := 0; ; {
		n := p.take()
		if n == 0 {
			return nil
		}
		if p.budget > 0 && sent > 0 && sent+n > p.budget || p.comp.kernel.Free() < n {
			p.stats.later.Add(1)
			return nil
		}
		sent += n
		p.transmit(n)
		p.tx.kernel.Release(n)
	}
}

// take looks at the next frame and returns how many descriptors it has.
func (p *Port) take() int {
	n := p.tx.kernel.Peek(p.descs[:])
	for i := range p.descs[:n] {
		if p.descs[i].Options&xsk.Continued == 0 {
			return i + 1
		}
	}
	return n // too many: transmit refuses them
}

// transmit carries the frame in the first n descriptors. Like the kernel it
// discards, without completion, what is not valid.
func (p *Port) transmit(n int) {
	p.frame = p.frame[:0]
	valid := n <= maxBuffers && (n == 1 || p.multiBuffer) && p.descs[n-1].Options&xsk.Continued == 0
	for i := range p.descs[:n] {
		d := &p.descs[i]
		piece := p.umem.Frame(*d)
		valid = valid && len(piece) > 0 && len(piece) <= p.umem.FrameSize()
		p.frame = append(p.frame, piece...)
		p.addrs[i] = d.Addr
	}
	if !valid {
		p.stats.txInvalid.Add(uint64(n))
		return
	}
	copies := 1
	if h := p.hook.Load(); h != nil {
		switch (*h)(p.frame) {
		case Drop:
			copies = 0
		case Duplicate:
			copies = 2
		case Deliver:
		}
	}
	for range copies {
		p.peer.Inject(p.frame)
	}
	p.comp.kernel.Put(p.addrs[:n])
}

// Inject makes frame arrive at p as if the peer had sent it, and reports
// whether it was received rather than dropped and counted.
func (p *Port) Inject(frame []byte) bool {
	p.arrival.Lock()
	ok := p.arrive(frame)
	p.arrival.Unlock()
	if w := p.waiter.Load(); ok && w != nil {
		w.notify()
	}
	return ok
}

// arrive places frame into filled frames. The caller holds p.arrival.
func (p *Port) arrive(frame []byte) bool {
	if p.usable() != nil || len(frame) == 0 {
		p.stats.rxLost.Add(1)
		return false
	}
	capacity := p.umem.RxCapacity()
	n := (len(frame) + capacity - 1) / capacity
	switch {
	case n > maxBuffers || n > 1 && !p.multiBuffer:
		p.stats.rxDropped.Add(1)
		return false
	case p.rx.kernel.Free() < n:
		p.stats.rxFull.Add(1)
		return false
	case p.asleep.Load() || !p.takeFilled(n):
		p.stats.rxNoFill.Add(1)
		if p.fillWakeup {
			p.setAsleep(true)
		}
		return false
	}
	p.held -= n
	for i, addr := range p.filled[p.held : p.held+n] {
		d := p.place(addr)
		d.Len = uint32(min(len(frame), capacity))
		copy(p.umem.Frame(d), frame)
		if frame = frame[d.Len:]; len(frame) != 0 {
			d.Options = xsk.Continued
		}
		p.placed[i] = d
	}
	p.rx.kernel.Put(p.placed[:n])
	return true
}

// takeFilled makes p.held hold n filled frames or more. Frames that do not
// suffice stay held for the next arrival, as in a driver. Addresses that
// cannot be are discarded.
func (p *Port) takeFilled(n int) bool {
	for p.held < n {
		next := p.filled[p.held : p.held+1]
		if p.fill.kernel.Take(next) == 0 {
			return false
		}
		if base := p.umem.Base(next[0]); base >= uint64(p.umem.Frames()*p.umem.FrameSize()) {
			p.stats.rxInvalid.Add(1)
			continue
		}
		p.held++
	}
	return true
}

// place returns the descriptor of a frame received at the filled address addr.
func (p *Port) place(addr uint64) xsk.Desc {
	offset := uint64(xsk.KernelHeadroom + p.umem.Headroom())
	if p.umem.Unaligned() {
		return xsk.Desc{Addr: addr&(1<<48-1) | offset<<48}
	}
	return xsk.Desc{Addr: p.umem.Base(addr) + offset}
}
