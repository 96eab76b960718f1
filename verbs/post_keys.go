package verbs

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// Rights of the keys that work requests bind.
const (
	changeRights = AccessRemoteWrite | AccessRemoteAtomic
	windowRights = changeRights | AccessRemoteRead | AccessFlushGlobal | AccessZeroBased
)

// checkKeys checks an operation on keys, which has no data and no peer. What is
// wrong with region, range and rights shows here; the device checks all of it again
// when the request runs.
func (q *QP) checkKeys(wr *SendWR) error {
	switch {
	case q.typ.Datagram():
		return invalid("%s needs a connected queue pair", wr.Opcode)
	case len(wr.SGList) > 0 || wr.Flags&SendInline != 0:
		return invalid("%s has no data: leave SGList and SendInline away", wr.Opcode)
	}
	switch wr.Opcode {
	case OpBindMW:
		return q.checkBind(wr)
	case OpRegMR:
		return q.checkReg(wr)
	default: // LOCAL_INV: the device knows the keys
		return nil
	}
}

func (q *QP) checkBind(wr *SendWR) error {
	w := wr.MW
	switch {
	case w == nil || wr.Bind == nil:
		return invalid("%s needs MW and Bind", wr.Opcode)
	case w.pd != q.pd:
		return invalid("the memory window is of another protection domain")
	case w.gone.Load():
		return fmt.Errorf("%w: the memory window was deallocated", ErrClosed)
	case w.typ == MWType1 && !wr.ofType1:
		return invalid("a memory window of type 1 is bound by QP.BindMW")
	case wr.Bind.Access&^windowRights != 0:
		return invalid("Bind.Access %s: a window has remote rights and ZERO_BASED only", wr.Bind.Access)
	case w.typ == MWType1 && wr.Bind.Access&AccessZeroBased != 0:
		return invalid("Bind.Access: a window of type 1 cannot be ZERO_BASED")
	case w.typ == MWType1 && wr.Bind.Length == 0:
		return nil
	}
	if err := checkNewKey(w.RKey(), wr.RKey); err != nil {
		return err
	}
	if r := wr.Bind.MR; r != nil && r.Access()&AccessMWBind == 0 {
		return invalid("Bind.MR: the region lacks MW_BIND")
	}
	return q.checkRange(wr.Bind)
}

func (q *QP) checkReg(wr *SendWR) error {
	m := wr.FastMR
	switch {
	case m == nil || wr.Bind == nil:
		return invalid("%s needs FastMR and Bind", wr.Opcode)
	case m.pd != q.pd:
		return invalid("the region is of another protection domain")
	case m.isGone():
		return fmt.Errorf("%w: the region was deregistered", ErrClosed)
	case wr.Bind.Length > m.limit:
		return invalid("Bind.Length is %d: the region was allocated for %d bytes", wr.Bind.Length, m.limit)
	case wr.Bind.Access&changeRights != 0 && wr.Bind.Access&AccessLocalWrite == 0:
		return invalid("Bind.Access: REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE too")
	}
	if err := checkNewKey(m.LKey(), wr.RKey); err != nil {
		return err
	}
	return q.checkRange(wr.Bind)
}

// checkNewKey checks that key can follow old.
func checkNewKey(old, key uint32) error {
	if key&^tagMask != old&^tagMask || key == old {
		return invalid("RKey is %#x after %#x: only the low 8 bits may change, and must; IncRKey makes the next key", key, old)
	}
	return nil
}

// checkRange checks the range of b.
func (q *QP) checkRange(b *MWBindInfo) error {
	r := b.MR
	switch {
	case b.Length == 0:
		return invalid("Bind.Length is 0")
	case r == nil && b.LKey == 0:
		return invalid("Bind needs MR, or the LKey of a FastMR")
	case r == nil:
		return nil
	case r.PD() != q.pd:
		return invalid("Bind.MR is of another protection domain")
	case b.Addr-r.Addr() > uint64(r.Len()) || b.Length > uint64(r.Len())-(b.Addr-r.Addr()):
		return invalid("Bind: %d bytes at %#x are not inside the region, %d bytes at %#x", b.Length, b.Addr, r.Len(), r.Addr())
	case b.Access&(changeRights|AccessLocalWrite) != 0 && r.Access()&AccessLocalWrite == 0:
		return invalid("Bind.Access %s: the region lacks LOCAL_WRITE", b.Access)
	}
	return nil
}

// putKeys fills what only operations on keys have, and notes the new key.
func putKeys(w *queue.SendWQE, wr *SendWR) {
	if wr.Opcode == OpLocalInv {
		w.Imm = wr.InvalidateKey
		return
	}
	b := wr.Bind
	w.BindAddr, w.BindLength, w.BindAccess = b.Addr, b.Length, b.Access
	w.BindLKey, w.BindRKey = b.LKey, wr.RKey
	if b.MR != nil {
		w.BindLKey = b.MR.LKey()
	}
	if wr.Opcode == OpRegMR {
		wr.FastMR.set(wr.RKey, b)
		return
	}
	wr.MW.rkey.Store(wr.RKey)
}
