package verbstest

import (
	"errors"
	"fmt"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// KeyKind is a kind of key that work requests bind.
type KeyKind struct {
	Name   string
	Type   verbs.MWType // of a window; 0: a FastMR
	Access verbs.Access // rights besides those to read and write
	Remote bool         // the peer takes the key away, else its owner does
}

// KeyKinds are those that a reliable connection has.
var KeyKinds = []KeyKind{
	{"window of type 1", verbs.MWType1, 0, false},
	{"window of type 2", verbs.MWType2, 0, false},
	{"window of type 2, zero-based", verbs.MWType2, verbs.AccessZeroBased, false},
	{"window of type 2, invalidated by the peer", verbs.MWType2, 0, true},
	{"fast region", 0, verbs.AccessLocalWrite, false},
	{"fast region, zero-based", 0, verbs.AccessLocalWrite | verbs.AccessZeroBased, false},
	{"fast region, invalidated by the peer", 0, verbs.AccessLocalWrite, true},
}

// Key is an R_Key of one end that leads to a part of its buffer.
type Key struct {
	KeyKind
	end  *End
	mr   *verbs.MR // what it is bound to
	mw   *verbs.MW
	fast *verbs.FastMR
	addr uint64
}

// NewKey makes a key of e that leads nowhere.
func (e *End) NewKey(kind KeyKind) (k *Key, err error) {
	k = &Key{KeyKind: kind, end: e}
	if k.mr, err = e.PD.RegisterMemory(e.Buf, All|verbs.AccessMWBind); err != nil {
		return nil, err
	}
	if kind.Type != 0 {
		k.mw, err = e.PD.AllocMW(kind.Type)
	} else {
		k.fast, err = e.PD.AllocFastMR(uint64(len(e.Buf)))
	}
	if err != nil {
		return nil, errors.Join(err, k.mr.Deregister())
	}
	return k, nil
}

// RKey is the key as it was bound last.
func (k *Key) RKey() uint32 {
	if k.mw != nil {
		return k.mw.RKey()
	}
	return k.fast.RKey()
}

// Addr is the address by which a peer names the first byte.
func (k *Key) Addr() uint64 { return k.addr }

// Bind binds the key to n bytes at offset off of the buffer, with a new tag.
func (k *Key) Bind(off, n int) error {
	info := verbs.MWBindInfo{
		MR: k.mr, Addr: k.mr.Addr() + uint64(off), Length: uint64(n),
		Access: verbs.AccessRemoteRead | verbs.AccessRemoteWrite | k.Access,
	}
	if k.addr = info.Addr; k.Access&verbs.AccessZeroBased != 0 {
		k.addr = 0
	}
	e, next := k.end, verbs.IncRKey(k.RKey())
	switch {
	case k.fast != nil:
		return e.run(verbs.SendWR{Opcode: verbs.OpRegMR, FastMR: k.fast, RKey: next, Bind: &info}, verbs.WCRegMR)
	case k.Type == verbs.MWType2:
		return e.run(verbs.SendWR{Opcode: verbs.OpBindMW, MW: k.mw, RKey: next, Bind: &info}, verbs.WCBindMW)
	}
	if err := e.QP.BindMW(k.mw, &verbs.MWBind{WRID: keyWR, Flags: verbs.SendSignaled, Info: info}); err != nil {
		return err
	}
	_, err := e.Done(keyWR, verbs.WCBindMW)
	return err
}

const keyWR = 77

// run posts wr and waits for its completion.
func (e *End) run(wr verbs.SendWR, op verbs.WCOpcode) error {
	wr.WRID = keyWR
	if err := e.Post(wr); err != nil {
		return err
	}
	_, err := e.Done(keyWR, op)
	return err
}

// Unbind takes the key away, by a request of its owner or of peer.
func (k *Key) Unbind(peer *End) error {
	e, key := k.end, k.RKey()
	switch {
	case k.Type == verbs.MWType1:
		return k.unbindType1()
	case !k.Remote:
		return e.run(verbs.SendWR{Opcode: verbs.OpLocalInv, InvalidateKey: key}, verbs.WCLocalInv)
	}
	if err := e.Recv(keyWR, 0, 0); err != nil {
		return err
	}
	if err := peer.run(verbs.SendWR{Opcode: verbs.OpSendWithInv, InvalidateKey: key}, verbs.WCSend); err != nil {
		return err
	}
	wc, err := e.Done(keyWR, verbs.WCRecv)
	if err == nil && (wc.Flags&verbs.WCWithInv == 0 || wc.Imm != key) {
		err = fmt.Errorf("receive completed with flags %v, key %#x; want WITH_INV, %#x", wc.Flags, wc.Imm, key)
	}
	return err
}

// unbindType1 binds to no bytes.
func (k *Key) unbindType1() error {
	if err := k.end.QP.BindMW(k.mw, &verbs.MWBind{WRID: keyWR, Flags: verbs.SendSignaled}); err != nil {
		return err
	}
	_, err := k.end.Done(keyWR, verbs.WCBindMW)
	return err
}

// Free frees the key, which must not be bound, and what it was bound to.
func (k *Key) Free() error {
	err := k.mr.Deregister() // first: nothing may be bound to it
	if k.mw != nil {
		return errors.Join(err, k.mw.Dealloc())
	}
	return errors.Join(err, k.fast.Deregister())
}

// Keys moves data from A to B and back through a key of B of each kind, n bytes
// each time, twice with different keys. It compares memory.
func (p *Pair) Keys(n int) error {
	for _, kind := range KeyKinds {
		if err := p.throughKey(kind, n); err != nil {
			return fmt.Errorf("%s: %w", kind.Name, err)
		}
	}
	return nil
}

func (p *Pair) throughKey(kind KeyKind, n int) error {
	k, err := p.B.NewKey(kind)
	if err != nil {
		return err
	}
	for range 2 {
		want := p.prepare(n)
		if err := k.Bind(guard, n); err != nil {
			return fmt.Errorf("binding: %w", err)
		}
		if err := k.mr.Deregister(); !errors.Is(err, verbs.ErrBusy) {
			return fmt.Errorf("deregistering what a key is bound to: %w, want ErrBusy", err)
		}
		if err := p.A.run(verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGList: p.source(n), RemoteAddr: k.Addr(), RKey: k.RKey()}, verbs.WCRDMAWrite); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		if err := p.compare(p.B.Buf, want); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		clear(p.A.Buf[:n])
		if err := p.A.run(verbs.SendWR{Opcode: verbs.OpRDMARead, SGList: p.source(n), RemoteAddr: k.Addr(), RKey: k.RKey()}, verbs.WCRDMARead); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if err := p.compare(p.A.Buf, want[guard:guard+n]); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if err := k.Unbind(p.A); err != nil {
			return fmt.Errorf("unbinding: %w", err)
		}
	}
	return k.Free()
}

// StaleKey has A write and, on the next pair, read by a key of B that was taken
// away, or bound anew when again. Both must be refused with REM_ACCESS_ERR and
// change no byte; the pair is of no use afterwards.
func (p *Pair) StaleKey(kind KeyKind, op verbs.Opcode, again bool) error {
	const n = 3000
	k, err := p.B.NewKey(kind)
	if err != nil {
		return err
	}
	if err := k.Bind(guard, n); err != nil {
		return err
	}
	key, addr := k.RKey(), k.Addr()
	if err := k.Unbind(p.A); err != nil {
		return err
	}
	if again {
		if err := k.Bind(guard, n); err != nil {
			return err
		}
	}
	p.prepare(n)
	a, b := append([]byte(nil), p.A.Buf...), append([]byte(nil), p.B.Buf...)
	if err := p.A.Post(verbs.SendWR{WRID: keyWR, Opcode: op, SGList: p.source(n), RemoteAddr: addr, RKey: key}); err != nil {
		return err
	}
	wc, err := p.A.Next()
	if err != nil {
		return err
	}
	if wc.WRID != keyWR || wc.Status != verbs.WCRemoteAccess {
		return fmt.Errorf("work request %d ended with %v, want REM_ACCESS_ERR", wc.WRID, wc.Status)
	}
	return errors.Join(p.compare(p.A.Buf, a), p.compare(p.B.Buf, b), p.B.QP.Destroy(), k.end.freeBound(k))
}

// freeBound frees k, bound or not.
func (e *End) freeBound(k *Key) error {
	if k.mw != nil {
		return errors.Join(k.mw.Dealloc(), k.mr.Deregister())
	}
	return errors.Join(k.fast.Deregister(), k.mr.Deregister())
}
