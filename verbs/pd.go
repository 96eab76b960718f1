package verbs

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
)

// PD is a protection domain (ibv_pd): a queue pair reaches only the memory
// regions of its own.
type PD struct {
	ctx    *Context
	handle uint32

	making sync.RWMutex // held by CreateAH for reading, before mu

	mu   sync.RWMutex
	gone bool
	qps  int
	srqs int
	mrs  map[uint32]*MR // by lkey
	mws  map[*MW]struct{}
	fast map[*FastMR]struct{}
	ahs  map[*AH]struct{}
}

// Context is the device of the protection domain.
func (pd *PD) Context() *Context { return pd.ctx }

func (pd *PD) name() string { return fmt.Sprintf("pd %d", pd.handle) }

// RegisterMemory makes b reachable for the queue pairs of the domain, with the
// given rights: without AccessLocalWrite only as a source. AccessRemoteWrite and
// AccessRemoteAtomic need AccessLocalWrite. Memory of the Go heap is pinned
// until Deregister.
func (pd *PD) RegisterMemory(b []byte, access Access) (*MR, error) {
	if len(b) == 0 {
		return nil, opErr("register memory", pd.name(), invalid("an empty buffer has no address"))
	}
	if access&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && access&AccessLocalWrite == 0 {
		return nil, opErr("register memory", pd.name(), invalid("REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE too"))
	}
	pd.mu.Lock()
	defer pd.mu.Unlock()
	if pd.gone {
		return nil, opErr("register memory", pd.name(), ErrClosed)
	}
	mr := &MR{pd: pd, buf: b, access: access}
	mr.pin.Pin(startOf(b))
	p, err := pd.ctx.p.RegisterMemory(pd.handle, b, access)
	if err != nil {
		mr.pin.Unpin()
		return nil, opErr("register memory", pd.name(), err)
	}
	mr.p = p
	pd.mrs[p.LKey] = mr
	return mr, nil
}

// Dealloc frees the domain. It is ErrBusy while it has queue pairs, shared receive
// queues, regions, memory windows or address handles.
func (pd *PD) Dealloc() error {
	pd.making.Lock()
	defer pd.making.Unlock()
	pd.mu.Lock()
	if pd.gone {
		pd.mu.Unlock()
		return nil
	}
	if n, s, m, w, h := pd.qps, pd.srqs, len(pd.mrs)+len(pd.fast), len(pd.mws), len(pd.ahs); n+s+m+w+h > 0 {
		pd.mu.Unlock()
		return opErr("deallocate", pd.name(), fmt.Errorf("%w: %d queue pairs, %d shared receive queues, %d memory regions, %d memory windows and %d address handles: destroy them first", ErrBusy, n, s, m, w, h))
	}
	pd.gone = true
	pd.mu.Unlock()
	pd.ctx.mu.Lock()
	delete(pd.ctx.pds, pd)
	pd.ctx.mu.Unlock()
	return opErr("deallocate", pd.name(), pd.ctx.p.DeallocPD(pd.handle))
}

func (pd *PD) destroyAll() error {
	pd.mu.RLock()
	mrs := make([]*MR, 0, len(pd.mrs))
	for _, mr := range pd.mrs {
		mrs = append(mrs, mr)
	}
	ahs, mws, fast := keys(pd.ahs), keys(pd.mws), keys(pd.fast)
	pd.mu.RUnlock()
	var errs []error
	for _, ah := range ahs {
		errs = append(errs, ah.Destroy())
	}
	// Regions are free when nothing is bound to them any more.
	for _, w := range mws {
		errs = append(errs, w.Dealloc())
	}
	for _, m := range fast {
		errs = append(errs, m.Deregister())
	}
	for _, mr := range mrs {
		errs = append(errs, mr.Deregister())
	}
	return errors.Join(append(errs, pd.Dealloc())...)
}

// overlaps is a region registered on any byte of b, or nil.
func (pd *PD) overlaps(b []byte) *MR {
	pd.mu.RLock()
	defer pd.mu.RUnlock()
	for _, mr := range pd.mrs {
		if overlap(mr.buf, b) {
			return mr
		}
	}
	return nil
}

// MR is a registered memory region (ibv_mr).
type MR struct {
	pd     *PD
	buf    []byte
	access Access
	p      ProviderMR
	pin    runtime.Pinner

	ending sync.Mutex // held by Deregister
	gone   bool
}

// Bytes is the registered memory.
func (m *MR) Bytes() []byte { return m.buf }

// Addr is the virtual address of the first byte: the base of SGEs and of the
// remote address that a peer names.
func (m *MR) Addr() uint64 { return m.p.Addr }

// Len is the length in bytes.
func (m *MR) Len() int { return len(m.buf) }

// LKey is the key for the device's own work requests.
func (m *MR) LKey() uint32 { return m.p.LKey }

// RKey is the key to give to peers.
func (m *MR) RKey() uint32 { return m.p.RKey }

// SGE names n bytes at offset off of the region. It does not check the range;
// the device does when the work request runs.
func (m *MR) SGE(off, n int) SGE {
	return SGE{Addr: m.p.Addr + uint64(off), Length: uint32(n), LKey: m.p.LKey}
}

// Deregister takes the memory back. It returns when the device can no longer
// touch it; work requests that still name it fail. It is ErrBusy while memory
// windows or FastMRs have bytes of the region. Twice is no error.
func (m *MR) Deregister() error {
	m.ending.Lock()
	defer m.ending.Unlock()
	if m.gone {
		return nil
	}
	pd := m.pd
	err := pd.ctx.p.DeregisterMemory(m.p)
	if errors.Is(err, ErrBusy) {
		return opErr("deregister memory", pd.name(), err)
	}
	m.gone = true
	pd.mu.Lock()
	delete(pd.mrs, m.p.LKey)
	pd.mu.Unlock()
	m.pin.Unpin()
	return opErr("deregister memory", pd.name(), err)
}

// inlineSource is the memory that an SGE of an inline request names.
func (pd *PD) inlineSource(e SGE) []byte {
	pd.mu.RLock()
	mr := pd.mrs[e.LKey]
	pd.mu.RUnlock()
	if mr == nil {
		return nil
	}
	off := e.Addr - mr.p.Addr
	if e.Addr < mr.p.Addr || off > uint64(len(mr.buf)) || uint64(e.Length) > uint64(len(mr.buf))-off {
		return nil
	}
	return mr.buf[off : off+uint64(e.Length)]
}
