package memory

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// aliasModel is what the model knows of an alias. Fields but a, kind and pd are
// those of the last binding.
type aliasModel struct {
	a     *Alias
	kind  aliasKind
	pd    PD
	limit uint64
	key   uint32
	bound bool
	dead  bool
	qpn   uint32
	va, n uint64 // as peers name them
	off   uint64 // of the first byte in the memory
	acc   ibv.Access
	base  uint32 // key of what it is bound to
}

// modelBytes is memory that something can be bound to: of a region, or of a
// fast-registered region.
type modelBytes struct {
	pd     PD
	start  uint64
	n, off uint64
	access ibv.Access
}

// aliasWorld is the table beside its model.
type aliasWorld struct {
	tab     *Table
	mem     []byte
	regions []*modelRegion
	aliases []*aliasModel
}

// sources are the keys that something can be bound to.
func (w *aliasWorld) source(key uint32) (modelBytes, bool) {
	for _, m := range w.regions {
		if m.live && m.key == key {
			return modelBytes{m.pd, m.start, m.n, m.start - w.regions[0].start, m.access}, true
		}
	}
	for _, m := range w.aliases {
		if m.kind == fast && m.bound && m.key == key {
			return modelBytes{m.pd, m.va, m.n, m.off, m.acc}, true
		}
	}
	return modelBytes{}, false
}

func (w *aliasWorld) users(key uint32) (n int) {
	for _, m := range w.aliases {
		if m.bound && m.base == key {
			n++
		}
	}
	return n
}

// may says whether the rules allow queue pair domain pd to bind m as b says.
func (w *aliasWorld) may(m *aliasModel, pd PD, b *Binding) bool {
	src, ok := w.source(b.LKey)
	own := !m.dead && m.pd == pd && m.key != b.Key
	change := b.Access&(ibv.AccessRemoteWrite|ibv.AccessRemoteAtomic) != 0
	if m.kind == window1 && b.Len == 0 && own {
		return b.Access&(ibv.AccessZeroBased|ibv.AccessLocalWrite|ibv.AccessMWBind) == 0
	}
	switch {
	case !own, !ok, src.pd != pd, b.Len == 0:
		return false
	case b.VA < src.start, b.VA+b.Len > src.start+src.n:
		return false
	case m.kind != window1 && m.bound:
		return false
	case change && src.access&ibv.AccessLocalWrite == 0:
		return false
	}
	if m.kind == fast {
		local := b.Access&ibv.AccessLocalWrite != 0
		return b.Len <= m.limit && (!change || local) && (!local || src.access&ibv.AccessLocalWrite != 0)
	}
	return src.access&ibv.AccessMWBind != 0 && src.access&ibv.AccessZeroBased == 0 &&
		b.Access&ibv.AccessLocalWrite == 0 && b.Access&ibv.AccessMWBind == 0 &&
		(m.kind == window2 || b.Access&ibv.AccessZeroBased == 0)
}

// TestAliasModel runs random bindings, invalidations and accesses beside a model
// that searches lists.
func TestAliasModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &aliasWorld{tab: NewTable(64, func() uint32 { return rapid.Uint32().Draw(rt, "rnd") }), mem: make([]byte, 64)}
		const start = 0x1000
		for i, access := range []ibv.Access{bindable, ibv.AccessMWBind | ibv.AccessRemoteRead, allRemote, bindable} {
			m := &modelRegion{pd: PD(1 + i/3), access: access, start: start, n: 64, live: true}
			r, err := w.tab.Register(m.pd, m.start, w.mem, access)
			if err != nil {
				rt.Fatal(err)
			}
			m.r, m.key = r, r.LKey()
			w.regions = append(w.regions, m)
		}
		rt.Repeat(w.actions())
	})
}

func (w *aliasWorld) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"alloc": w.alloc, "bind": w.bind, "bind again": w.bind, "invalidate": w.invalidate, "access": w.access,
		"dealloc": w.dealloc, "deregister": w.deregister, "unbind qp": w.unbindQP, "": w.check,
	}
}

func (w *aliasWorld) alloc(rt *rapid.T) {
	m := &aliasModel{kind: aliasKind(rapid.IntRange(0, 2).Draw(rt, "kind")), pd: PD(rapid.IntRange(1, 2).Draw(rt, "pd"))}
	var err error
	if m.kind == fast {
		m.limit = uint64(rapid.IntRange(1, 64).Draw(rt, "limit"))
		m.a, err = w.tab.AllocFast(m.pd, m.limit)
	} else {
		m.a, err = w.tab.AllocWindow(m.pd, ibv.MWType1+ibv.MWType(m.kind))
	}
	if err != nil {
		if !errors.Is(err, ErrFull) {
			rt.Fatal(err)
		}
		return
	}
	m.key = m.a.Key()
	w.aliases = append(w.aliases, m)
}

func (w *aliasWorld) pick(rt *rapid.T) *aliasModel {
	if len(w.aliases) == 0 {
		rt.Skip("nothing allocated")
	}
	return w.aliases[rapid.IntRange(max(0, len(w.aliases)-6), len(w.aliases)-1).Draw(rt, "alias")]
}

func (w *aliasWorld) bind(rt *rapid.T) {
	m := w.pick(rt)
	pd := PD(1)
	if rapid.IntRange(0, 5).Draw(rt, "other domain") == 0 {
		pd = 2
	}
	qpn := uint32(rapid.IntRange(1, 2).Draw(rt, "qpn"))
	b := Binding{
		Key: m.key&^0xff | uint32(rapid.Uint8Range(0, 7).Draw(rt, "tag")),
		VA:  0x1000 + uint64(rapid.Int64Range(-1, 60).Draw(rt, "va")), Len: uint64(rapid.IntRange(0, 16).Draw(rt, "len")),
	}
	for _, bit := range []ibv.Access{ibv.AccessLocalWrite, ibv.AccessRemoteWrite, ibv.AccessRemoteRead, ibv.AccessMWBind, ibv.AccessZeroBased} {
		if rapid.IntRange(0, 2).Draw(rt, "bit") == 0 {
			b.Access |= bit
		}
	}
	keys := []uint32{0}
	for _, r := range w.regions {
		keys = append(keys, r.key)
	}
	for _, a := range w.aliases {
		if a.kind == fast {
			keys = append(keys, a.key)
		}
	}
	b.LKey = rapid.SampledFrom(keys).Draw(rt, "lkey")
	want := w.may(m, pd, &b)
	got := false
	if m.kind == fast {
		got = w.tab.RegisterFast(pd, &b)
	} else {
		got = w.tab.BindWindow(pd, qpn, &b)
	}
	if got != want {
		rt.Fatalf("%+v of kind %d: %v, want %v", b, m.kind, got, want)
	}
	if !got {
		return
	}
	src, _ := w.source(b.LKey)
	m.key, m.bound = b.Key, b.Len != 0
	m.va, m.n, m.acc, m.base, m.qpn = b.VA, b.Len, b.Access, b.LKey, 0
	m.off = src.off + b.VA - src.start
	if b.Access&ibv.AccessZeroBased != 0 {
		m.va = 0
	}
	if m.kind == window2 {
		m.qpn = qpn
	}
}

func (w *aliasWorld) invalidate(rt *rapid.T) {
	m := w.pick(rt)
	pd := PD(rapid.IntRange(1, 2).Draw(rt, "pd"))
	qpn := uint32(rapid.IntRange(0, 2).Draw(rt, "qpn"))
	want := m.bound && m.pd == pd && m.kind != window1 && w.users(m.key) == 0 && (qpn == 0 || m.qpn == 0 || m.qpn == qpn)
	got := false
	if qpn == 0 {
		got = w.tab.Invalidate(m.key, pd)
	} else {
		got = w.tab.InvalidateRemote(m.key, pd, qpn)
	}
	if got != want {
		rt.Fatalf("key %#x: %v, want %v", m.key, got, want)
	}
	m.bound = m.bound && !got
}

func (w *aliasWorld) access(rt *rapid.T) {
	m := w.pick(rt)
	qpn := uint32(rapid.IntRange(1, 2).Draw(rt, "qpn"))
	pd := PD(rapid.IntRange(1, 2).Draw(rt, "pd"))
	need := rapid.SampledFrom([]ibv.Access{0, ibv.AccessRemoteRead, ibv.AccessRemoteWrite}).Draw(rt, "need")
	va, n := m.va+uint64(rapid.Int64Range(-1, 16).Draw(rt, "offset")), uint64(rapid.IntRange(1, 16).Draw(rt, "n"))
	want := FaultNone
	switch {
	case !m.bound:
		want = FaultKey
	case m.pd != pd:
		want = FaultPD
	case need&^m.acc != 0:
		want = FaultAccess
	case m.qpn != 0 && m.qpn != qpn:
		want = FaultQP
	case va-m.va >= m.n || va-m.va+n > m.n:
		want = FaultRange
	}
	r, got := w.tab.CheckRemote(m.key, pd, qpn, need, va, n)
	if got != want {
		rt.Fatalf("key %#x: %v, want %v", m.key, got, want)
	}
	if got != FaultNone {
		return
	}
	if b := r.Slice(va, int(n)); &b[0] != &w.mem[m.off+va-m.va] {
		rt.Fatalf("key %#x leads to other bytes", m.key)
	}
	if _, f := w.tab.Check(m.key, pd, 0, va, n); (f == FaultNone) != (m.kind == fast) {
		rt.Fatalf("as a local key: %v", f)
	}
}

func (w *aliasWorld) dealloc(rt *rapid.T) {
	m := w.pick(rt)
	busy := m.bound && w.users(m.key) > 0
	err := w.tab.Dealloc(m.a)
	switch {
	case m.dead && errors.Is(err, ErrNotRegistered), busy && errors.Is(err, ErrBound):
	case m.dead || busy || err != nil:
		rt.Fatalf("dead %v, busy %v: %v", m.dead, busy, err)
	default:
		m.dead, m.bound = true, false
	}
}

func (w *aliasWorld) deregister(rt *rapid.T) {
	m := w.regions[rapid.IntRange(0, len(w.regions)-1).Draw(rt, "region")]
	if !m.live || rapid.IntRange(0, 3).Draw(rt, "spare it") != 0 && w.users(m.key) == 0 {
		return
	}
	n := w.users(m.key)
	if err := w.tab.Deregister(m.r); (err == nil) != (n == 0) || err != nil && !errors.Is(err, ErrBound) {
		rt.Fatalf("%d aliases: %v", n, err)
	}
	m.live = n > 0
}

func (w *aliasWorld) unbindQP(rt *rapid.T) {
	qpn := uint32(rapid.IntRange(1, 2).Draw(rt, "qpn"))
	w.tab.UnbindQP(qpn)
	for _, m := range w.aliases {
		m.bound = m.bound && m.qpn != qpn
	}
}

func (w *aliasWorld) check(rt *rapid.T) {
	n := 0
	for _, m := range w.regions {
		if m.live {
			n++
		}
	}
	for _, m := range w.aliases {
		if !m.dead {
			n++
		}
		if _, f := w.tab.CheckRemote(m.key, m.pd, max(m.qpn, 1), 0, m.va, 0); !m.dead && (f == FaultNone) != m.bound {
			rt.Fatalf("key %#x is bound: %v, table says %v", m.key, m.bound, f)
		}
	}
	if w.tab.Count() != n {
		rt.Fatalf("%d entries, want %d", w.tab.Count(), n)
	}
}
