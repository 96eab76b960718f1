package transport_test

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
)

// pairKey is a key that leads to a host's source, target and words.
type pairKey struct {
	alias *memory.Alias
	key   uint32
	zero  bool // zero-based
	fast  bool // a fast-registered region, else a window
	type1 bool
	bound bool
}

// pairKeys are the keys that a host has besides that of its region.
type pairKeys struct {
	forPeer []pairKey // bound before the programs run; the peer uses and gives them up
	own     []pairKey // bound and invalidated by the host's own program
	base    *memory.Region
	size    uint64 // bytes that a key leads to
}

const (
	pairPeerAccess = ibv.AccessRemoteRead | ibv.AccessRemoteWrite | ibv.AccessRemoteAtomic | ibv.AccessFlushGlobal
	pairFastAccess = pairPeerAccess | ibv.AccessLocalWrite
)

func (k *pairKeys) init(h *pairHost, table *memory.Table) {
	must := func(err error) {
		if err != nil {
			h.w.Fatal(err)
		}
	}
	m := &h.mem
	k.size = uint64(m.words.off + m.words.n)
	var err error
	k.base, err = table.Register(1, pairVA, m.bytes, pairFastAccess|ibv.AccessMWBind)
	must(err)
	for i := range 10 {
		p := pairKey{fast: i%3 == 2, zero: i%2 == 1, type1: i%3 == 1}
		switch {
		case p.fast:
			p.alias, err = table.AllocFast(1, k.size)
		case p.type1 && i >= 6:
			p.zero = false
			p.alias, err = table.AllocWindow(1, ibv.MWType1)
		default:
			p.type1 = false
			p.alias, err = table.AllocWindow(1, ibv.MWType2)
		}
		must(err)
		p.key = p.alias.Key()
		if i >= 6 {
			k.own = append(k.own, p)
			continue
		}
		p.key ^= 1
		b := k.binding(&p)
		if p.fast {
			p.bound = table.RegisterFast(1, &b)
		} else {
			p.bound = table.BindWindow(1, h.qpn(), &b)
		}
		if !p.bound {
			h.w.Fatalf("%+v was refused", b)
		}
		k.forPeer = append(k.forPeer, p)
	}
}

// binding gives p, by the key that it is to have, all that a key leads to.
func (k *pairKeys) binding(p *pairKey) memory.Binding {
	b := memory.Binding{Key: p.key, LKey: k.base.LKey(), VA: pairVA, Len: k.size, Access: pairPeerAccess}
	if p.fast {
		b.Access = pairFastAccess
	}
	if p.zero {
		b.Access |= ibv.AccessZeroBased
	}
	return b
}

// pairKeyOpcodes change keys.
var pairKeyOpcodes = []ibv.WROpcode{ibv.WRBindMW, ibv.WRLocalInv, ibv.WRRegMR, ibv.WRLocalInv, ibv.WRBindMW, ibv.WRSendWithInv}

// changeKey makes op one that can be executed on one of the host's own keys: it
// binds what is free or of type 1, and invalidates the rest.
func (g *generator) changeKey(op *pairOp) {
	own := g.h.keys.own
	p := &own[g.rnd.IntN(len(own))]
	if p.bound && !p.type1 {
		op.wqe.Opcode, op.wqe.Imm, op.want.Opcode = ibv.WRLocalInv, p.key, ibv.WCLocalInv
		p.bound = false
		return
	}
	p.key = p.key&^0xff | (p.key+1+uint32(g.rnd.IntN(255)))&0xff
	p.bound = true
	op.wqe.Opcode, op.want.Opcode = ibv.WRBindMW, ibv.WCBindMW
	if p.fast {
		op.wqe.Opcode, op.want.Opcode = ibv.WRRegMR, ibv.WCRegMR
	}
	b := g.h.keys.binding(p)
	if p.type1 && g.rnd.IntN(4) == 0 {
		b.Len, p.bound = 0, false
	}
	op.wqe.BindRKey, op.wqe.BindLKey, op.wqe.BindAddr, op.wqe.BindLength, op.wqe.BindAccess = b.Key, b.LKey, b.VA, b.Len, b.Access
}

// giveUpKey has op invalidate one of the peer's keys, or makes it a plain SEND
// when none is left.
func (g *generator) giveUpKey(op *pairOp) {
	for i := range g.h.peer.keys.forPeer {
		if p := &g.h.peer.keys.forPeer[i]; p.bound {
			p.bound = false
			op.wqe.Imm = p.key
			return
		}
	}
	op.wqe.Opcode = ibv.WRSend
}

// throughKeys has op name the peer's memory, and its own, by keys that are bound
// when it runs.
func (g *generator) throughKeys(op *pairOp) {
	if op.wqe.RemoteAddr != 0 {
		peer := g.h.peer.keys.forPeer
		if p := &peer[g.rnd.IntN(len(peer))]; p.bound {
			op.wqe.RKey = p.key
			if p.zero {
				op.wqe.RemoteAddr -= pairVA
			}
		}
	}
	for i := range op.sges {
		s := &op.sges[i]
		end := s.Addr - pairVA + uint64(s.Length)
		for _, p := range g.h.keys.own {
			if p.fast && p.bound && s.Length > 0 && end <= g.h.keys.size {
				s.LKey = p.key
				if p.zero {
					s.Addr -= pairVA
				}
				break
			}
		}
	}
}

// TestPairWindows is TestPair with requests that go through windows and
// fast-registered regions, while both programs bind and invalidate such, and give
// up the peer's: whatever is lost and sent again, each key works for the requests
// that were posted while it was bound, and changes once.
func TestPairWindows(t *testing.T) {
	gaveUp, changes := 0, 0
	const last = 120
	eachSeed(t, "", 2001, 2000+last, func(t *testing.T, seed uint64, rec worldRecorder) {
		p := drawParams(seed)
		p.windows, p.rec = true, rec
		n, broke := runWindows(t, p)
		changes += n
		if broke {
			gaveUp++
		}
	})
	if gaveUp > last/4 || changes < 5*last {
		t.Errorf("%d of %d connections broke, %d keys were changed: the conditions test little", gaveUp, last, changes)
	}
}

// everyKeyOp has each operation through keys that change around it.
var everyKeyOp = []fixedOp{
	{ibv.WRRegMR, 0}, {ibv.WRSend, 3*256 + 1}, {ibv.WRLocalInv, 0}, {ibv.WRRDMAWrite, 2 * 256}, {ibv.WRBindMW, 0}, {ibv.WRRDMARead, 3*256 + 1},
	{ibv.WRSendWithInv, 300}, {ibv.WRBindMW, 0}, {ibv.WRAtomicFetchAdd, 8}, {ibv.WRSendWithInv, 0}, {ibv.WRRDMARead, 300}, {ibv.WRLocalInv, 0},
	{ibv.WRFlush, 100}, {ibv.WRRegMR, 0}, {ibv.WRRDMAWriteWithImm, 256}, {ibv.WRSendWithInv, 256}, {ibv.WRSend, 1},
}

// Each frame in turn is lost, repeated or late.
func TestPairWindowsEachFrameOnce(t *testing.T) {
	p := calmParams()
	p.windows = true
	total := frames(t, p)
	for _, what := range []simnet.Fate{simnet.Lose, simnet.Repeat, simnet.Delay} {
		for _, from := range []simnet.End{simnet.A, simnet.B} {
			for n := range total[from] {
				w, _ := runFaults(t, p, fate{from, n, what})
				for _, h := range w.hosts {
					h.keys.check(h)
				}
			}
		}
	}
}

func runWindows(t *testing.T, p pairParams) (changes int, broke bool) {
	w := newPairWorld(t, p)
	for _, h := range w.hosts {
		h.writeProgram(w.ops[h.end])
	}
	w.runToEnd()
	for _, h := range w.hosts {
		broke = broke || h.prog.failed != ibv.WCSuccess
	}
	for _, h := range w.hosts {
		h.checkEnd(broke)
		for i := range h.prog.ops {
			switch h.prog.ops[i].wqe.Opcode {
			case ibv.WRBindMW, ibv.WRLocalInv, ibv.WRRegMR, ibv.WRSendWithInv:
				changes++
			default:
			}
		}
		if !broke {
			h.keys.check(h)
		}
	}
	return changes, broke
}

// check compares the table with what the programs have left.
func (k *pairKeys) check(h *pairHost) {
	for _, list := range [][]pairKey{k.forPeer, k.own} {
		for _, p := range list {
			va := uint64(pairVA)
			if p.zero {
				va = 0
			}
			_, ok := h.env.Mem.AccessRemote(p.key, 1, h.qpn(), pairPeerAccess, va, k.size)
			if ok != p.bound {
				h.w.failf("%v: key %#x of %+v works: %v", h.end, p.key, p, ok)
			}
		}
	}
}
