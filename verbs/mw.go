package verbs

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// MW is a memory window (ibv_mw): an R_Key for a part of a region, which work
// requests bind, so that a peer's access can be given and taken away in order with
// other requests and without a call to the device.
//
// A window of type 1 is bound by QP.BindMW as often as wanted and serves every
// queue pair of its domain. A window of type 2 is bound by OpBindMW when it is
// free, serves only the queue pair that has bound it, and becomes free by
// OpLocalInv, by the peer's OpSendWithInv, or when that queue pair is destroyed;
// that it is of type 2A and of type 2B makes no difference (IBTA vol. 1, 10.6.7.2).
type MW struct {
	pd   *PD
	typ  MWType
	p    ProviderMW
	rkey atomic.Uint32
	gone atomic.Bool

	mu sync.Mutex // held while a binding takes the next key
}

// MWBindInfo is what a window is bound to, or a FastMR is made of
// (ibv_mw_bind_info).
type MWBindInfo struct {
	// MR is the region; a window needs its AccessMWBind, and its AccessLocalWrite
	// to have rights to change memory.
	MR *MR
	// LKey is that of a FastMR, in place of MR.
	LKey uint32
	// Addr is the first byte, an address of the region.
	Addr uint64
	// Length is the number of bytes. 0 takes a window of type 1 away from its region.
	Length uint64
	// Access are the rights that the new key has: of a window, AccessRemoteRead,
	// AccessRemoteWrite, AccessRemoteAtomic and AccessFlushGlobal. With
	// AccessZeroBased, which type 1 cannot have, peers count addresses from 0.
	Access Access
}

// MWBind is a binding of a window of type 1 (ibv_mw_bind).
type MWBind struct {
	WRID  uint64
	Flags SendFlags // SendFence waits for all earlier requests; SendSignaled
	Info  MWBindInfo
}

// AllocMW makes a memory window of type MWType1 or MWType2, bound to nothing.
func (pd *PD) AllocMW(typ MWType) (*MW, error) {
	if typ != MWType1 && typ != MWType2 {
		return nil, opErr("allocate memory window", pd.name(), invalid("type %d: MWType1 and MWType2 are possible", uint8(typ)))
	}
	pd.mu.Lock()
	defer pd.mu.Unlock()
	if pd.gone {
		return nil, opErr("allocate memory window", pd.name(), ErrClosed)
	}
	p, err := pd.ctx.p.AllocMW(pd.handle, typ)
	if err != nil {
		return nil, opErr("allocate memory window", pd.name(), err)
	}
	w := &MW{pd: pd, typ: typ, p: p}
	w.rkey.Store(p.RKey)
	pd.mws[w] = struct{}{}
	return w, nil
}

// Type is the type of the window.
func (w *MW) Type() MWType { return w.typ }

// PD is the protection domain of the window.
func (w *MW) PD() *PD { return w.pd }

// RKey is the key of the last binding that was posted; a peer can use it as soon
// as that has been executed, so at the latest when it gets a message that was sent
// after it. Before the first it leads nowhere.
func (w *MW) RKey() uint32 { return w.rkey.Load() }

func (w *MW) name() string { return fmt.Sprintf("memory window %#x", w.RKey()) }

// Dealloc frees the window, bound or not, and returns when no peer can reach
// memory through it any more. Bindings that have not been executed fail. Twice is
// no error.
func (w *MW) Dealloc() error {
	if w.gone.Swap(true) {
		return nil
	}
	w.pd.mu.Lock()
	delete(w.pd.mws, w)
	w.pd.mu.Unlock()
	return opErr("deallocate", w.name(), w.pd.ctx.p.DeallocMW(w.p))
}

// IncRKey is the next key of a window or FastMR (ibv_inc_rkey): its tag, the low
// 8 bits, counts up and begins anew after 255.
func IncRKey(key uint32) uint32 { return key&^tagMask | (key+1)&tagMask }

// tagMask is the part of a key that a program chooses; the rest is the device's.
const tagMask = 0xFF

// BindMW posts the binding of a window of type 1 (ibv_bind_mw) and sets its RKey
// to the new key; of an unsuccessful one the completion has WCMWBind, the queue
// pair goes to ERR and the window is bound as before. Rebinding ends the access by
// the old key.
func (q *QP) BindMW(w *MW, b *MWBind) error {
	if w == nil || b == nil {
		return opErr("bind memory window", q.name(), invalid("a window and a binding are needed"))
	}
	if w.typ != MWType1 {
		return opErr("bind memory window", q.name(), invalid("a window of type %s is bound by OpBindMW", w.typ))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return q.PostSend(&SendWR{
		WRID: b.WRID, Opcode: OpBindMW, Flags: b.Flags, MW: w, RKey: IncRKey(w.RKey()), Bind: &b.Info,
		ofType1: true,
	})
}
