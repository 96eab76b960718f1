package verbs

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// remoteBuffer is memory that program and daemon share.
type remoteBuffer struct {
	start  uint64
	b      []byte
	handle uint64
	span   proto.Span
}

func (d *remote) AllocPD() (uint32, error) {
	var r proto.PD
	err := d.do(proto.OpAllocPD, &proto.Empty{}, &r)
	return r.PD, err
}

func (d *remote) DeallocPD(pd uint32) error { return d.release(proto.OpDeallocPD, &proto.PD{PD: pd}) }

func (d *remote) AllocBuffer(n int) ([]byte, error) {
	var r proto.AllocBufferReply
	if err := d.do(proto.OpAllocBuffer, &proto.AllocBuffer{Size: uint64(n)}, &r); err != nil {
		return nil, err
	}
	b, _, err := d.s.Memory(&r.Span, true)
	if err == nil && len(b) != n {
		err = fmt.Errorf("%w: the daemon gave %d bytes of %d", ErrUnsupported, len(b), n)
	}
	if err != nil {
		_ = d.release(proto.OpFreeBuffer, &proto.Handle{Handle: r.Handle}) // the first error counts
		return nil, fromDaemon(err)
	}
	shm.Lock(b)
	d.mu.Lock()
	defer d.mu.Unlock()
	e := remoteBuffer{start: addressOf(b), b: b, handle: r.Handle, span: r.Span}
	i, _ := d.bufferAt(e.start)
	d.buffers = slices.Insert(d.buffers, i, e)
	return b, nil
}

// bufferAt is where the buffer that begins at an address is, or would be. The lock is
// held.
func (d *remote) bufferAt(addr uint64) (i int, found bool) {
	return slices.BinarySearchFunc(d.buffers, addr, func(e remoteBuffer, addr uint64) int {
		switch {
		case e.start < addr:
			return -1
		case e.start > addr:
			return 1
		}
		return 0
	})
}

func (d *remote) FreeBuffer(b []byte) error {
	d.mu.Lock()
	i, found := d.bufferAt(addressOf(b))
	if !found {
		d.mu.Unlock()
		return invalid("not the start of a buffer of AllocBuffer")
	}
	e := d.buffers[i]
	d.buffers = slices.Delete(d.buffers, i, i+1)
	d.mu.Unlock()
	shm.Unlock(e.b)
	return d.release(proto.OpFreeBuffer, &proto.Handle{Handle: e.handle})
}

// memoryOf says what region b makes: one of shared memory if it lies in a buffer.
func (d *remote) memoryOf(b []byte) (m proto.RegMR, err error) {
	m = proto.RegMR{Addr: addressOf(b), Length: uint64(len(b)), Memory: proto.MemoryIndirect}
	d.mu.Lock()
	i, found := d.bufferAt(m.Addr)
	if !found {
		i--
	}
	if i >= 0 {
		if e := &d.buffers[i]; m.Addr-e.start <= uint64(len(e.b)) && m.Length <= uint64(len(e.b))-(m.Addr-e.start) {
			m.Memory, m.Segment, m.Offset = proto.MemoryShared, e.span.Segment, e.span.Offset+(m.Addr-e.start)
		}
	}
	d.mu.Unlock()
	if m.Memory == proto.MemoryIndirect {
		err = d.handOver()
	}
	return m, err
}

// handOver gives the daemon the process's memory, once: without it no region can be
// made of memory that the daemon does not share.
func (d *remote) handOver() error {
	d.procMu.Lock()
	defer d.procMu.Unlock()
	if d.proc {
		return nil
	}
	f, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%w: memory that is not of AllocBuffer is reached through /proc/self/mem: %w", ErrUnsupported, err)
	}
	defer f.Close()
	fds, err := d.s.Call(context.Background(), proto.OpSetMemory, &proto.Empty{}, nil, int(f.Fd()))
	fds.Close()
	if err != nil {
		return fromDaemon(err)
	}
	d.proc = true
	return nil
}

func (d *remote) RegisterMemory(pd uint32, b []byte, access ibv.Access) (ProviderMR, error) {
	m, err := d.memoryOf(b)
	if err != nil {
		return ProviderMR{}, err
	}
	m.PD, m.Access = pd, uint32(access)
	return d.region(proto.OpRegMR, &m)
}

func (d *remote) RegisterImplicit(pd uint32, access ibv.Access) (ProviderMR, error) {
	if err := d.handOver(); err != nil {
		return ProviderMR{}, err
	}
	return d.region(proto.OpRegMR, &proto.RegMR{PD: pd, Access: uint32(access), Memory: proto.MemoryImplicit})
}

func (d *remote) region(op proto.Op, req any) (ProviderMR, error) {
	var r proto.MRReply
	if err := d.do(op, req, &r); err != nil {
		return ProviderMR{}, err
	}
	return ProviderMR{Handle: r.Handle, Addr: r.Addr, LKey: r.LKey, RKey: r.RKey}, nil
}

func (d *remote) ReregisterMemory(mr ProviderMR, c *ProviderRereg) (ProviderMR, error) {
	m := &proto.ReregMR{Handle: mr.Handle, Flags: uint32(c.Flags)}
	if c.Flags&ibv.ReregTranslation != 0 {
		var err error
		if m.New, err = d.memoryOf(c.Buf); err != nil {
			return mr, err
		}
	}
	m.New.PD, m.New.Access = c.PD, uint32(c.Access)
	n, err := d.region(proto.OpReregMR, m)
	if err != nil {
		return mr, err
	}
	return n, nil
}

// AdviseMemory has the daemon check the entries, and prepare what it maps; the
// program's own pages are the program's to bring.
func (d *remote) AdviseMemory(pd uint32, advice ibv.Advice, sges []SGE) error {
	for part := range slices.Chunk(sges, proto.MaxAdvise) {
		m := &proto.AdviseMR{PD: pd, Count: uint32(len(part)), Advice: uint32(advice)}
		for i, e := range part {
			m.SGE[i] = proto.SGE{Addr: e.Addr, Length: e.Length, LKey: e.LKey}
		}
		if err := d.do(proto.OpAdviseMR, m, nil); err != nil {
			return err
		}
	}
	if advice == ibv.AdvisePrefetchNoFault {
		return nil
	}
	for i, e := range sges {
		if err := shm.Prefetch(e.Addr, uint64(e.Length), advice == ibv.AdvisePrefetchWrite); err != nil {
			return fmt.Errorf("entry %d, %d bytes at %#x: not all pages are there: %w", i, e.Length, e.Addr, err)
		}
	}
	return nil
}

func (d *remote) DeregisterMemory(mr ProviderMR) error {
	return d.release(proto.OpDeregMR, &proto.Handle{Handle: mr.Handle})
}

func (d *remote) AllocMW(pd uint32, typ ibv.MWType) (ProviderMW, error) {
	var r proto.MWReply
	if err := d.do(proto.OpAllocMW, &proto.AllocMW{PD: pd, Type: uint32(typ)}, &r); err != nil {
		return ProviderMW{}, err
	}
	return ProviderMW{Handle: r.Handle, RKey: r.RKey}, nil
}

func (d *remote) DeallocMW(mw ProviderMW) error {
	return d.release(proto.OpDeallocMW, &proto.Handle{Handle: mw.Handle})
}

func (d *remote) AllocFastMR(pd uint32, limit uint64) (ProviderMR, error) {
	return d.region(proto.OpAllocFastMR, &proto.AllocFastMR{PD: pd, Limit: limit})
}

func (d *remote) DeallocFastMR(mr ProviderMR) error {
	return d.release(proto.OpDeallocFast, &proto.Handle{Handle: mr.Handle})
}
