package verbs

import (
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// MR is a registered memory region (ibv_mr).
type MR struct {
	now atomic.Pointer[mrState] // changed by Rereg only

	changing sync.Mutex // held by Deregister and Rereg
	pin      *runtime.Pinner
	gone     bool
}

// mrState is what a region is.
type mrState struct {
	pd     *PD
	buf    []byte // nil: an implicit region
	access Access
	p      ProviderMR
}

// RegisterMemory makes b reachable for the queue pairs of the domain, with the
// given rights: without AccessLocalWrite only as a source. AccessRemoteWrite and
// AccessRemoteAtomic need AccessLocalWrite. Memory of the Go heap is pinned
// until Deregister.
//
// With AccessOnDemand pages of b may be missing, now or later: of a file that is
// truncated, or in a mapping that is taken apart. An access that meets a missing
// page fails, at the queue pair that it belongs to, and neither the process nor the
// region comes to harm. Without it b must stay mapped until Deregister.
func (pd *PD) RegisterMemory(b []byte, access Access) (*MR, error) {
	if len(b) == 0 {
		return nil, opErr("register memory", pd.name(), invalid("an empty buffer has no address"))
	}
	if err := checkRights(access); err != nil {
		return nil, opErr("register memory", pd.name(), err)
	}
	return pd.register(b, access, func() (ProviderMR, error) {
		return pd.ctx.p.RegisterMemory(pd.handle, b, access)
	})
}

// RegisterImplicit makes all memory of the process one region, at the addresses
// that it has: what is mapped when a work request runs can be named by it, with
// MR.SGEOf, and what is not, or must not be written, fails like a page that is
// missing of on-demand memory. Memory of the Go heap must stay reachable, and that
// of stacks has no lasting address: use AllocBuffer, or runtime.Pinner.
//
// A peer that gets the key with AccessRemoteWrite can change the whole program; keep
// it to yourself unless you trust the peer as much. Each access is a system call.
// Refused are AccessRemoteAtomic and AccessMWBind; ATOMIC WRITE fails. DeviceAttr.ODP
// says whether the device has such regions.
func (pd *PD) RegisterImplicit(access Access) (*MR, error) {
	if err := checkRights(access); err != nil {
		return nil, opErr("register implicit", pd.name(), err)
	}
	if access&(AccessRemoteAtomic|AccessMWBind) != 0 {
		return nil, opErr("register implicit", pd.name(), invalid("REMOTE_ATOMIC and MW_BIND: an implicit region has neither atomics nor windows"))
	}
	return pd.register(nil, access, func() (ProviderMR, error) {
		return pd.ctx.p.RegisterImplicit(pd.handle, access)
	})
}

func (pd *PD) register(b []byte, access Access, add func() (ProviderMR, error)) (*MR, error) {
	pd.mu.Lock()
	defer pd.mu.Unlock()
	if pd.gone {
		return nil, opErr("register memory", pd.name(), ErrClosed)
	}
	pin := pinned(b)
	p, err := add()
	if err != nil {
		pin.Unpin()
		return nil, opErr("register memory", pd.name(), err)
	}
	mr := &MR{pin: pin}
	mr.now.Store(&mrState{pd: pd, buf: b, access: access, p: p})
	pd.mrs[p.LKey] = mr
	return mr, nil
}

func checkRights(access Access) error {
	if access&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && access&AccessLocalWrite == 0 {
		return invalid("REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE too")
	}
	return nil
}

func pinned(b []byte) *runtime.Pinner {
	pin := new(runtime.Pinner)
	if b != nil {
		pin.Pin(startOf(b))
	}
	return pin
}

// PD is the protection domain of the region.
func (m *MR) PD() *PD { return m.now.Load().pd }

// Access are the rights that the region was registered with.
func (m *MR) Access() Access { return m.now.Load().access }

// Bytes is the registered memory, nil of an implicit region.
func (m *MR) Bytes() []byte { return m.now.Load().buf }

// Addr is the virtual address of the first byte: the base of SGEs and of the
// remote address that a peer names. That of an implicit region is 0.
func (m *MR) Addr() uint64 { return m.now.Load().p.Addr }

// Len is the length in bytes.
func (m *MR) Len() int {
	if s := m.now.Load(); s.buf != nil {
		return len(s.buf)
	}
	return math.MaxInt
}

// LKey is the key for the device's own work requests.
func (m *MR) LKey() uint32 { return m.now.Load().p.LKey }

// RKey is the key to give to peers.
func (m *MR) RKey() uint32 { return m.now.Load().p.RKey }

// SGE names n bytes at offset off of the region. It does not check the range;
// the device does when the work request runs.
func (m *MR) SGE(off, n int) SGE {
	s := m.now.Load()
	return SGE{Addr: s.p.Addr + uint64(off), Length: uint32(n), LKey: s.p.LKey}
}

// SGEOf names b, which is memory of the region. It does not check that either.
func (m *MR) SGEOf(b []byte) SGE {
	return SGE{Addr: addressOf(b), Length: uint32(len(b)), LKey: m.LKey()}
}

// Deregister takes the memory back. It returns when the device can no longer
// touch it; work requests that still name it fail. It is ErrBusy while memory
// windows or FastMRs have bytes of the region. Twice is no error.
func (m *MR) Deregister() error {
	m.changing.Lock()
	defer m.changing.Unlock()
	if m.gone {
		return nil
	}
	s := m.now.Load()
	err := s.pd.ctx.p.DeregisterMemory(s.p)
	if errors.Is(err, ErrBusy) {
		return opErr("deregister memory", s.pd.name(), err)
	}
	m.gone = true
	s.pd.mu.Lock()
	delete(s.pd.mrs, s.p.LKey)
	s.pd.mu.Unlock()
	m.pin.Unpin()
	return opErr("deregister memory", s.pd.name(), err)
}

// inlineSource is the memory that an SGE of an inline request names.
func (pd *PD) inlineSource(e SGE) []byte {
	pd.mu.RLock()
	mr := pd.mrs[e.LKey]
	pd.mu.RUnlock()
	if mr == nil {
		return nil
	}
	s := mr.now.Load()
	off := e.Addr - s.p.Addr
	if e.Addr < s.p.Addr || off > uint64(len(s.buf)) || uint64(e.Length) > uint64(len(s.buf))-off {
		return nil
	}
	return s.buf[off : off+uint64(e.Length)]
}
