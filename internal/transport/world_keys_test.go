package transport_test

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
)

// keyKind is what a key is of.
type keyKind int

const (
	keyWindow1 keyKind = iota
	keyWindow2
	keyFast // a fast-registered region
	keyKinds
)

// keyState is what the program that owns a key knows of it.
type keyState int

const (
	keyFree     keyState = iota
	keyChanging          // a request that binds or invalidates it is posted
	keyBound             // the peer may use it
	keyRetiring          // the peer has been told to use it no more
	keyGivenUp           // the peer has posted a SEND that invalidates it
	keyUnknown           // a request that changes it has failed
)

// worldKey is a key of a queue pair for the memory that its peer uses. What its
// state is, both programs tell each other, as they do in the world outside.
type worldKey struct {
	kind  keyKind
	alias *memory.Alias
	key   uint32
	zero  bool // zero-based
	to    span // what it leads to
	state keyState
	users int // requests of the peer that have not completed
	own   int // and its owner's, that name own memory by it
}

// makeKeys gives q keys for the area that its peer uses. That of a fast-registered
// region leads to all memory, so that q's own requests can use it too.
func (q *worldQP) makeKeys(area span) {
	if !q.h.w.worldParams.keys || q.typ != ibv.QPTypeRC {
		return
	}
	for kind := range keyKinds {
		k := &worldKey{kind: kind, to: area}
		if kind == keyFast {
			k.to = span{0, len(q.h.mem.bytes)}
		}
		k.alias = q.h.keyAlias(kind, k.to.n)
		k.key = k.alias.Key()
		k.zero = kind != keyWindow1 && q.h.w.rnd.IntN(2) == 0
		q.keys = append(q.keys, k)
	}
}

// drawKey makes op, now and then, one that changes a key of its own.
func (q *worldQP) drawKey(op *worldOp) bool {
	rnd := q.h.w.rnd
	if len(q.keys) == 0 || rnd.IntN(4) != 0 {
		return false
	}
	k := q.keys[rnd.IntN(len(q.keys))]
	switch {
	case k.state == keyFree:
		q.bind(op, k, uint64(k.to.n))
	case k.state == keyBound:
		k.state = keyRetiring
		return false
	case k.state != keyRetiring || k.users > 0:
		return false
	case k.kind == keyWindow1:
		q.bind(op, k, 0)
	default:
		op.wqe.Opcode, op.wqe.Imm, op.want.Opcode = ibv.WRLocalInv, k.key, ibv.WCLocalInv
	}
	op.wqe.Flags |= ibv.SendSignaled
	op.key, op.changes = k, true
	k.state = keyChanging
	return true
}

// bind has op bind k, by another key, to n bytes of its area; 0 unbinds.
func (q *worldQP) bind(op *worldOp, k *worldKey, n uint64) {
	k.key = k.key&^0xff | (k.key+1+uint32(q.h.w.rnd.IntN(255)))&0xff
	op.wqe.Opcode, op.want.Opcode = ibv.WRBindMW, ibv.WCBindMW
	op.wqe.BindAccess = pairPeerAccess
	if k.kind == keyFast {
		op.wqe.Opcode, op.want.Opcode = ibv.WRRegMR, ibv.WCRegMR
		op.wqe.BindAccess = pairFastAccess
	}
	if k.zero {
		op.wqe.BindAccess |= ibv.AccessZeroBased
	}
	op.wqe.BindRKey, op.wqe.BindLKey = k.key, q.h.mem.region.LKey()
	op.wqe.BindAddr, op.wqe.BindLength = pairVA+uint64(k.to.off), n
}

// useKey has op name the area by one of the peer's keys, now and then.
func (q *worldQP) useKey(op *worldOp) {
	if len(q.peer.keys) == 0 || op.key != nil || op.wqe.RemoteAddr == 0 || op.atomic != noAtomic {
		return
	}
	k := q.peer.keys[q.h.w.rnd.IntN(len(q.peer.keys))]
	if k.state != keyBound {
		return
	}
	op.wqe.RKey, op.key = k.key, k
	if k.zero {
		op.wqe.RemoteAddr -= pairVA + uint64(k.to.off)
	}
	k.users++
}

// giveUpKey has the SEND op invalidate one of the peer's keys, now and then.
func (q *worldQP) giveUpKey(op *worldOp) {
	if len(q.peer.keys) == 0 || op.wqe.Opcode != ibv.WRSend || q.h.w.rnd.IntN(3) != 0 {
		return
	}
	k := q.peer.keys[q.h.w.rnd.IntN(len(q.peer.keys))]
	if k.state != keyBound || k.kind == keyWindow1 || k.own > 0 {
		return
	}
	q.fence(op) // READs by the key must not be asked for again after it
	op.wqe.Opcode, op.wqe.Imm = ibv.WRSendWithInv, k.key
	op.msg.flags, op.msg.imm, op.msg.key = ibv.WCFlagWithInv, k.key, k
	op.key = k
	k.users++
	k.state = keyGivenUp
}

// useOwnKey has op name its own memory by a fast-registered key, now and then. An
// invalidation that is posted next waits until op has completed.
func (q *worldQP) useOwnKey(op *worldOp) {
	if len(q.keys) == 0 || len(op.sges) == 0 || q.h.w.rnd.IntN(2) == 0 {
		return
	}
	k := q.keys[keyFast]
	if k.state != keyBound && k.state != keyRetiring {
		return
	}
	op.own = k
	k.own++
	for i := range op.sges {
		if s := &op.sges[i]; s.Length > 0 {
			s.LKey = k.key
			if k.zero {
				s.Addr -= pairVA
			}
		}
	}
}

// keyDone is what the programs learn about a key by the end of op.
func (q *worldQP) keyDone(op *worldOp, ok bool) {
	if op.own != nil {
		op.own.own--
	}
	switch k := op.key; {
	case k == nil:
	case !op.changes:
		k.users--
	case !ok:
		k.state = keyUnknown
	case op.wqe.Opcode == ibv.WRLocalInv || op.wqe.BindLength == 0:
		k.state = keyFree
	default:
		k.state = keyBound
	}
}

// checkKeys compares the table with what the program knows, as long as the
// connection lasts.
func (q *worldQP) checkKeys() {
	if q.dead() || q.peer.dead() {
		return
	}
	for _, k := range q.keys {
		va := pairVA + uint64(k.to.off)
		if k.zero {
			va = 0
		}
		_, ok := q.h.env.Mem.AccessRemote(k.key, 1, q.qp.QPN(), pairPeerAccess, va, uint64(k.to.n))
		if want := k.state == keyBound || k.state == keyRetiring; ok != want {
			q.h.w.failf("%v: key %#x of kind %d works: %v, in state %d", q, k.key, k.kind, ok, k.state)
		}
	}
}
