package verbs

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// FastMR is a memory region that work requests register and invalidate, in order
// with other requests and without a call to the device (IBTA vol. 1, 10.6.3.3;
// IB_WR_REG_MR of Linux). OpRegMR gives it a range and a new key, OpLocalInv or the
// peer's OpSendWithInv takes both away.
//
// The range lies in a region of the same protection domain. That was pinned and
// checked when it was registered, so a work request can never name memory that the
// program had not handed to the device: the rule holds for programs whose device is
// in another process too. Inline data cannot be given by its key; use InlineData.
type FastMR struct {
	pd    *PD
	p     ProviderMR
	limit uint64

	key    atomic.Uint32
	addr   atomic.Uint64
	length atomic.Uint64

	mu   sync.Mutex
	gone bool
}

// AllocFastMR makes a region without memory that can have up to limit bytes, at
// most DeviceAttr.MaxMRSize.
func (pd *PD) AllocFastMR(limit uint64) (*FastMR, error) {
	if limit == 0 {
		return nil, opErr("allocate fast region", pd.name(), invalid("0 bytes: at least 1 is needed"))
	}
	pd.mu.Lock()
	defer pd.mu.Unlock()
	if pd.gone {
		return nil, opErr("allocate fast region", pd.name(), ErrClosed)
	}
	p, err := pd.ctx.p.AllocFastMR(pd.handle, limit)
	if err != nil {
		return nil, opErr("allocate fast region", pd.name(), err)
	}
	m := &FastMR{pd: pd, p: p, limit: limit}
	m.key.Store(p.LKey)
	pd.fast[m] = struct{}{}
	return m, nil
}

// PD is the protection domain of the region.
func (m *FastMR) PD() *PD { return m.pd }

// Limit is how many bytes the region can have.
func (m *FastMR) Limit() uint64 { return m.limit }

// LKey is the key of the last OpRegMR that was posted. Requests that are posted
// after it may use it, and peers as soon as they get a message sent after it.
// Before the first it leads nowhere.
func (m *FastMR) LKey() uint32 { return m.key.Load() }

// RKey is the same as LKey.
func (m *FastMR) RKey() uint32 { return m.key.Load() }

// Addr is the virtual address of the first byte of that registration: 0 with
// AccessZeroBased, else what it was in the region that has it.
func (m *FastMR) Addr() uint64 { return m.addr.Load() }

// Len is the length in bytes of that registration.
func (m *FastMR) Len() int { return int(m.length.Load()) }

// SGE names n bytes at offset off of the region. It does not check the range;
// the device does when the work request runs.
func (m *FastMR) SGE(off, n int) SGE {
	return SGE{Addr: m.addr.Load() + uint64(off), Length: uint32(n), LKey: m.key.Load()}
}

func (m *FastMR) name() string { return fmt.Sprintf("fast region %#x", m.LKey()) }

// Deregister frees the region, registered or not, and returns when nothing can
// reach memory through it any more. It is ErrBusy while windows are bound to it.
// Twice is no error.
func (m *FastMR) Deregister() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return nil
	}
	err := m.pd.ctx.p.DeallocFastMR(m.p)
	if errors.Is(err, ErrBusy) {
		return opErr("deregister", m.name(), err)
	}
	m.gone = true
	m.pd.mu.Lock()
	delete(m.pd.fast, m)
	m.pd.mu.Unlock()
	return opErr("deregister", m.name(), err)
}

// isGone reports whether the region was deregistered.
func (m *FastMR) isGone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gone
}

// set notes the registration b with key, which has been posted.
func (m *FastMR) set(key uint32, b *MWBindInfo) {
	m.key.Store(key)
	m.length.Store(b.Length)
	if b.Access&AccessZeroBased != 0 {
		m.addr.Store(0)
		return
	}
	m.addr.Store(b.Addr)
}
