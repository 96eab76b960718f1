package memory

import (
	"bytes"
	"errors"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

const (
	bindable = allRemote | ibv.AccessMWBind | ibv.AccessFlushGlobal
	aliasQP  = 0x11 // the queue pair that binds
)

// aliasRig is a region of 256 bytes at 0x1000 with windows of both types and a
// fast-registered region for 100 bytes.
type aliasRig struct {
	testing.TB
	tab          *Table
	r            *Region
	mem          []byte
	w1, w2, fast *Alias
}

func newAliasRig(t testing.TB, access ibv.Access) *aliasRig {
	t.Helper()
	g := &aliasRig{TB: t, tab: newTable(1024), mem: alignedBytes(256)}
	g.r = mustRegister(t, g.tab, 0x1000, g.mem, access)
	var errs [3]error
	g.w1, errs[0] = g.tab.AllocWindow(1, ibv.MWType1)
	g.w2, errs[1] = g.tab.AllocWindow(1, ibv.MWType2)
	g.fast, errs[2] = g.tab.AllocFast(1, 100)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return g
}

// to binds a, with its next key, to n bytes at va of the rig's region.
func (g *aliasRig) to(a *Alias, va, n uint64, access ibv.Access) Binding {
	key := a.Key()
	return Binding{Key: key&^0xff | (key+1)&0xff, LKey: g.r.LKey(), VA: va, Len: n, Access: access}
}

func (g *aliasRig) bind(a *Alias, b Binding) bool {
	if a == g.fast {
		return g.tab.RegisterFast(1, &b)
	}
	return g.tab.BindWindow(1, aliasQP, &b)
}

func (g *aliasRig) mustBind(a *Alias, va, n uint64, access ibv.Access) uint32 {
	g.Helper()
	b := g.to(a, va, n, access)
	if !g.bind(a, b) {
		g.Fatalf("%+v was refused", b)
	}
	return b.Key
}

// reach wants a peer's access through queue pair qpn to end with f.
func (g *aliasRig) reach(key, qpn uint32, need ibv.Access, va, n uint64, want Fault) *Region {
	g.Helper()
	r, f := g.tab.CheckRemote(key, 1, qpn, need, va, n)
	if f != want {
		g.Errorf("key %#x, queue pair %#x, %d bytes at %#x: %v, want %v", key, qpn, n, va, f, want)
	}
	if again, ok := g.tab.AccessRemote(key, 1, qpn, need, va, n); ok != (f == FaultNone) || again != r {
		g.Errorf("AccessRemote says %v, CheckRemote %v", ok, f)
	}
	return r
}

func TestBoundKeysLeadToTheirBytes(t *testing.T) {
	conformance.Rule(t, "10-22", "10-26")
	for _, tc := range []struct {
		name   string
		alias  func(*aliasRig) *Alias
		access ibv.Access
		start  uint64
	}{
		{"type 1", func(g *aliasRig) *Alias { return g.w1 }, ibv.AccessRemoteWrite | ibv.AccessRemoteRead, 0x1010},
		{"type 2", func(g *aliasRig) *Alias { return g.w2 }, ibv.AccessRemoteWrite | ibv.AccessRemoteRead, 0x1010},
		{"type 2, zero-based", func(g *aliasRig) *Alias { return g.w2 }, ibv.AccessRemoteWrite | ibv.AccessRemoteRead | ibv.AccessZeroBased, 0},
		{"fast", func(g *aliasRig) *Alias { return g.fast }, noAtomics, 0x1010},
		{"fast, zero-based", func(g *aliasRig) *Alias { return g.fast }, noAtomics | ibv.AccessZeroBased, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newAliasRig(t, bindable)
			a := tc.alias(g)
			g.reach(a.Key(), aliasQP, 0, tc.start, 0, FaultKey)
			key := g.mustBind(a, 0x1010, 64, tc.access)
			if a.Key() != key {
				t.Errorf("key is %#x, want %#x", a.Key(), key)
			}
			r := g.reach(key, aliasQP, ibv.AccessRemoteWrite, tc.start, 64, FaultNone)
			if !r.Write(tc.start, []byte("first")) || !r.WriteFinal(tc.start+59, []byte("final")) {
				t.Fatal("refused")
			}
			want := make([]byte, 256)
			copy(want[0x10:], "first")
			copy(want[0x10+59:], "final")
			if !bytes.Equal(g.mem, want) {
				t.Errorf("memory is %q", g.mem)
			}
			var got [5]byte
			if !r.Read(tc.start+59, got[:]) || string(got[:]) != "final" {
				t.Errorf("read %q", got)
			}
			g.reach(key, aliasQP, ibv.AccessRemoteRead, tc.start-1, 2, FaultRange)
			g.reach(key, aliasQP, ibv.AccessRemoteRead, tc.start+63, 2, FaultRange)
			g.reach(key, aliasQP, ibv.AccessRemoteAtomic, tc.start, 8, FaultAccess)
			if _, f := g.tab.CheckRemote(key, 2, aliasQP, 0, tc.start, 1); f != FaultPD {
				t.Errorf("another domain: %v", f)
			}
		})
	}
}

func TestTwoWindowsDoNotMix(t *testing.T) {
	conformance.Rule(t, "10-19")
	g := newAliasRig(t, bindable)
	k1 := g.mustBind(g.w1, 0x1000, 8, ibv.AccessRemoteRead)
	k2 := g.mustBind(g.w2, 0x1008, 8, ibv.AccessRemoteRead)
	for _, tc := range []struct {
		name string
		key  uint32
		qpn  uint32
		va   uint64
		want Fault
	}{
		{"type 1 by its binder", k1, aliasQP, 0x1000, FaultNone},
		{"type 1 by another queue pair", k1, aliasQP + 1, 0x1000, FaultNone},
		{"type 1 at the bytes of the other", k1, aliasQP, 0x1008, FaultRange},
		{"type 2 by its binder", k2, aliasQP, 0x1008, FaultNone},
		{"type 2 by another queue pair", k2, aliasQP + 1, 0x1008, FaultQP},
		{"type 2 at the bytes of the other", k2, aliasQP, 0x1000, FaultRange},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g.TB = t
			g.reach(tc.key, tc.qpn, ibv.AccessRemoteRead, tc.va, 8, tc.want)
		})
	}
}

func TestWindowsHaveNoLKey(t *testing.T) {
	g := newAliasRig(t, bindable)
	for _, a := range []*Alias{g.w1, g.w2} {
		key := g.mustBind(a, 0x1000, 8, ibv.AccessRemoteWrite)
		if _, f := g.tab.Check(key, 1, 0, 0x1000, 8); f != FaultAccess {
			t.Errorf("gathering through a window: %v", f)
		}
		b := Binding{Key: g.fast.Key() ^ 1, LKey: key, VA: 0x1000, Len: 8}
		if g.tab.RegisterFast(1, &b) {
			t.Error("a window was registered as memory")
		}
	}
	key := g.mustBind(g.fast, 0x1000, 8, ibv.AccessLocalWrite)
	if _, f := g.tab.Check(key, 1, ibv.AccessLocalWrite, 0x1000, 8); f != FaultNone {
		t.Errorf("scattering through a fast-registered region: %v", f)
	}
}

func TestBindRefuses(t *testing.T) {
	conformance.Rule(t, "10-18", "10-21", "10-26", "10-22")
	const rr, rw = ibv.AccessRemoteRead, ibv.AccessRemoteWrite
	w1, w2 := func(g *aliasRig) *Alias { return g.w1 }, func(g *aliasRig) *Alias { return g.w2 }
	fast := func(g *aliasRig) *Alias { return g.fast }
	other := func(g *aliasRig, access ibv.Access) *Region {
		return mustRegister(g, g.tab, 0, make([]byte, 256), access)
	}
	for _, tc := range []struct {
		name   string
		alias  func(*aliasRig) *Alias
		region ibv.Access
		access ibv.Access
		change func(*aliasRig, *Binding)
	}{
		{"region without MW_BIND, type 1", w1, allRemote, rr, nil},
		{"region without MW_BIND, type 2", w2, allRemote, rr, nil},
		{"REMOTE_WRITE on read-only memory", w1, ibv.AccessMWBind, rw, nil},
		{"REMOTE_ATOMIC on read-only memory", w2, ibv.AccessMWBind, ibv.AccessRemoteAtomic, nil},
		{"LOCAL_WRITE of a window", w2, bindable, ibv.AccessLocalWrite | rw, nil},
		{"MW_BIND of a window", w2, bindable, ibv.AccessMWBind | rw, nil},
		{"FLUSH_GLOBAL that the region lacks", w2, allRemote | ibv.AccessMWBind, rw | ibv.AccessFlushGlobal, nil},
		{"zero-based, type 1", w1, bindable, rr | ibv.AccessZeroBased, nil},
		{"zero-based region", w2, bindable, rr, func(g *aliasRig, b *Binding) {
			b.LKey, b.VA = other(g, bindable|ibv.AccessZeroBased).LKey(), 0
		}},
		{"begins before the region", w2, bindable, rr, func(_ *aliasRig, b *Binding) { b.VA = 0xfff }},
		{"ends after the region", w2, bindable, rr, func(_ *aliasRig, b *Binding) { b.VA, b.Len = 0x10f0, 17 }},
		{"no region", w2, bindable, rr, func(_ *aliasRig, b *Binding) { b.LKey = 0 }},
		{"stale region key", w2, bindable, rr, func(_ *aliasRig, b *Binding) { b.LKey ^= 1 }},
		{"region that was deregistered", w2, bindable, rr, func(g *aliasRig, _ *Binding) {
			if err := g.tab.Deregister(g.r); err != nil {
				g.Fatal(err)
			}
		}},
		{"no bytes, type 2", w2, bindable, rr, func(_ *aliasRig, b *Binding) { b.Len = 0 }},
		{"no bytes, fast", fast, bindable, rr, func(_ *aliasRig, b *Binding) { b.Len = 0 }},
		{"the key that it has", w2, bindable, rr, func(g *aliasRig, b *Binding) { b.Key = g.w2.Key() }},
		{"the key that it has, type 1", w1, bindable, rr, func(g *aliasRig, b *Binding) { b.Key = g.w1.Key() }},
		{"the key that it has, fast", fast, bindable, rr, func(g *aliasRig, b *Binding) { b.Key = g.fast.Key() }},
		{"key of no alias", w2, bindable, rr, func(_ *aliasRig, b *Binding) { b.Key += 0x500 }},
		{"key of a region", w2, bindable, rr, func(g *aliasRig, b *Binding) { b.Key = g.r.LKey() ^ 1 }},
		{"key past the table", w2, bindable, rr, func(_ *aliasRig, b *Binding) { b.Key = 0xffffffff }},
		{"fast key bound as a window", w2, bindable, rr, func(g *aliasRig, b *Binding) { b.Key = g.fast.Key() ^ 1 }},
		{"window key registered", fast, bindable, rr, func(g *aliasRig, b *Binding) { b.Key = g.w2.Key() ^ 1 }},
		{"more than it was allocated for", fast, bindable, rr, func(_ *aliasRig, b *Binding) { b.Len = 101 }},
		{"fast REMOTE_WRITE without LOCAL_WRITE", fast, bindable, rw, nil},
		{"fast LOCAL_WRITE on read-only memory", fast, ibv.AccessRemoteRead, ibv.AccessLocalWrite, nil},
		{"fast with unknown rights", fast, bindable, 1 << 11, nil},
		{"fast with the right that is not for programs", fast, bindable, rightLocal, nil},
		{"atomics on indirect memory", w2, bindable, ibv.AccessRemoteAtomic, func(g *aliasRig, b *Binding) {
			r, err := g.tab.RegisterIndirect(1, 0, 256, fakeIndirect{}, ibv.AccessLocalWrite|ibv.AccessMWBind)
			if err != nil {
				g.Fatal(err)
			}
			b.LKey, b.VA = r.LKey(), 0
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newAliasRig(t, tc.region)
			a := tc.alias(g)
			b := g.to(a, 0x1010, 64, tc.access)
			if tc.change != nil {
				tc.change(g, &b)
			}
			before := a.Key()
			if g.bind(a, b) {
				t.Fatal("bound")
			}
			if a.Key() != before {
				t.Errorf("the key is %#x, was %#x", a.Key(), before)
			}
			g.reach(b.Key, aliasQP, 0, b.VA, 0, map[bool]Fault{true: FaultNone, false: FaultKey}[b.Key == g.r.LKey()])
		})
	}
}

func TestBindOfAnotherDomain(t *testing.T) {
	g := newAliasRig(t, bindable)
	b := g.to(g.w2, 0x1010, 64, ibv.AccessRemoteRead)
	if g.tab.BindWindow(2, aliasQP, &b) {
		t.Error("a queue pair of another domain bound the window")
	}
	foreign, err := g.tab.Register(2, 0, make([]byte, 64), bindable)
	if err != nil {
		t.Fatal(err)
	}
	b.LKey, b.VA = foreign.LKey(), 0
	if g.tab.BindWindow(1, aliasQP, &b) || g.tab.BindWindow(2, aliasQP, &b) {
		t.Error("a window was bound to a region of another domain")
	}
	f := g.to(g.fast, 0, 8, 0)
	f.LKey = foreign.LKey()
	if g.tab.RegisterFast(1, &f) || g.tab.RegisterFast(2, &f) {
		t.Error("memory of another domain was registered")
	}
}

func TestRebind(t *testing.T) {
	conformance.Rule(t, "10-17")
	g := newAliasRig(t, bindable)
	first := g.mustBind(g.w1, 0x1000, 8, ibv.AccessRemoteRead)
	second := g.mustBind(g.w1, 0x1010, 8, ibv.AccessRemoteWrite)
	g.reach(first, aliasQP, 0, 0x1000, 8, FaultKey)
	g.reach(second, aliasQP, ibv.AccessRemoteWrite, 0x1010, 8, FaultNone)

	b := g.to(g.w1, 0x1000, 8, ibv.AccessLocalWrite)
	if g.bind(g.w1, b) {
		t.Error("bound with rights that a window cannot have")
	}
	g.reach(second, aliasQP, ibv.AccessRemoteWrite, 0x1010, 8, FaultNone) // nothing has changed

	third := g.mustBind(g.w1, 0, 0, 0)
	g.reach(second, aliasQP, 0, 0x1010, 8, FaultKey)
	g.reach(third, aliasQP, 0, 0x1010, 0, FaultKey)
	if err := g.tab.Deregister(g.r); err != nil {
		t.Errorf("deregistering after a binding of no bytes: %v", err)
	}
}

func TestType2IsBoundWhenFree(t *testing.T) {
	conformance.Rule(t, "10-18")
	g := newAliasRig(t, bindable)
	key := g.mustBind(g.w2, 0x1000, 8, ibv.AccessRemoteRead)
	if b := g.to(g.w2, 0x1010, 8, ibv.AccessRemoteRead); g.bind(g.w2, b) {
		t.Error("bound twice")
	}
	if !g.tab.Invalidate(key, 1) {
		t.Fatal("not invalidated")
	}
	if b := (Binding{Key: key, LKey: g.r.LKey(), VA: 0x1000, Len: 8}); g.bind(g.w2, b) {
		t.Error("an invalidated key came back")
	}
	g.reach(g.mustBind(g.w2, 0x1010, 8, ibv.AccessRemoteRead), aliasQP, 0, 0x1010, 8, FaultNone)
}

func TestInvalidate(t *testing.T) {
	conformance.Rule(t, "10-23", "10-24")
	for _, tc := range []struct {
		name  string
		setup func(*aliasRig) uint32 // what to invalidate
		pd    PD
		qpn   uint32 // 0: by a work request of one's own
		want  bool
	}{
		{"window of type 2", func(g *aliasRig) uint32 { return g.mustBind(g.w2, 0x1000, 8, 0) }, 1, 0, true},
		{"by the peer of its queue pair", func(g *aliasRig) uint32 { return g.mustBind(g.w2, 0x1000, 8, 0) }, 1, aliasQP, true},
		{"by another peer", func(g *aliasRig) uint32 { return g.mustBind(g.w2, 0x1000, 8, 0) }, 1, aliasQP + 1, false},
		{"of another domain", func(g *aliasRig) uint32 { return g.mustBind(g.w2, 0x1000, 8, 0) }, 2, 0, false},
		{"old key", func(g *aliasRig) uint32 { return g.mustBind(g.w2, 0x1000, 8, 0) - 1 }, 1, 0, false},
		{"fast", func(g *aliasRig) uint32 { return g.mustBind(g.fast, 0x1000, 8, 0) }, 1, 0, true},
		{"fast, by any peer", func(g *aliasRig) uint32 { return g.mustBind(g.fast, 0x1000, 8, 0) }, 1, aliasQP + 1, true},
		{"window of type 1", func(g *aliasRig) uint32 { return g.mustBind(g.w1, 0x1000, 8, 0) }, 1, 0, false},
		{"free window", func(g *aliasRig) uint32 { return g.w2.Key() }, 1, 0, false},
		{"region", func(g *aliasRig) uint32 { return g.r.RKey() }, 1, 0, false},
		{"nothing", func(*aliasRig) uint32 { return 0 }, 1, 0, false},
		{"past the table", func(*aliasRig) uint32 { return 0xffffffff }, 1, aliasQP, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newAliasRig(t, bindable)
			key := tc.setup(g)
			_, was := g.tab.CheckRemote(key, 1, aliasQP, 0, 0x1000, 8)
			got := false
			if tc.qpn == 0 {
				got = g.tab.Invalidate(key, tc.pd)
			} else {
				got = g.tab.InvalidateRemote(key, tc.pd, tc.qpn)
			}
			if got != tc.want {
				t.Fatalf("invalidated: %v, want %v", got, tc.want)
			}
			if tc.want {
				was = FaultKey
			}
			g.reach(key, aliasQP, 0, 0x1000, 8, was)
		})
	}
}
