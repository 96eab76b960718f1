package memory

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

func TestAllocAliasRefuses(t *testing.T) {
	tab := newTable(1)
	for _, typ := range []ibv.MWType{0, 3, 255} {
		if _, err := tab.AllocWindow(1, typ); !errors.Is(err, ErrWindowType) {
			t.Errorf("type %d: %v", typ, err)
		}
	}
	if _, err := tab.AllocFast(1, 0); !errors.Is(err, ErrRange) {
		t.Errorf("no bytes: %v", err)
	}
	if tab.Count() != 0 {
		t.Errorf("%d entries after refusals", tab.Count())
	}
	if _, err := tab.AllocFast(1, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := tab.AllocWindow(1, ibv.MWType2); !errors.Is(err, ErrFull) {
		t.Errorf("full table: %v", err)
	}
}

func TestBoundRegionStays(t *testing.T) {
	conformance.Rule(t, "10-25")
	g := newAliasRig(t, bindable)
	for _, a := range []*Alias{g.w1, g.w2, g.fast} {
		g.mustBind(a, 0x1000, 8, 0)
	}
	for n, free := range map[string]func() bool{
		"by 3": func() bool { return g.tab.Invalidate(g.w2.Key(), 1) },
		"by 2": func() bool { return g.tab.Invalidate(g.fast.Key(), 1) },
		"by 1": func() bool { g.mustBind(g.w1, 0, 0, 0); return true },
	} {
		err := g.tab.Deregister(g.r)
		if !errors.Is(err, ErrBound) {
			t.Fatalf("%v, want ErrBound", err)
		}
		if _, ok := g.tab.Access(g.r.LKey(), 1, 0, 0x1000, 8); !ok {
			t.Error("the region is gone although it was not deregistered")
		}
		if !free() {
			t.Errorf("%s: not freed", n)
		}
	}
	if err := g.tab.Deregister(g.r); err != nil {
		t.Error(err)
	}
}

func TestBoundErrorCounts(t *testing.T) {
	g := newAliasRig(t, bindable)
	g.mustBind(g.w1, 0x1000, 8, 0)
	g.mustBind(g.w2, 0x1000, 8, 0)
	if err := g.tab.Deregister(g.r); err == nil || !strings.Contains(err.Error(), "bound to by 2 memory windows") {
		t.Errorf("got %v", err)
	}
}

// Windows may be bound to a fast-registered region, which is then held like any
// other.
func TestWindowOnFastRegion(t *testing.T) {
	conformance.Rule(t, "10-25")
	g := newAliasRig(t, bindable)
	fast := g.mustBind(g.fast, 0x1020, 64, bindable|ibv.AccessZeroBased)
	b := g.to(g.w2, 8, 16, ibv.AccessRemoteRead)
	b.LKey = fast
	if g.bind(g.w2, b) {
		t.Error("bound to a zero-based region")
	}
	if !g.tab.Invalidate(fast, 1) {
		t.Fatal("not invalidated")
	}
	fast = g.mustBind(g.fast, 0x1020, 64, bindable)
	b = g.to(g.w2, 0x1028, 16, ibv.AccessRemoteWrite|ibv.AccessZeroBased)
	b.LKey = fast
	if !g.bind(g.w2, b) {
		t.Fatal("not bound")
	}
	if r := g.reach(b.Key, aliasQP, ibv.AccessRemoteWrite, 0, 16, FaultNone); !r.Write(15, []byte{7}) || g.mem[0x37] != 7 {
		t.Errorf("wrote elsewhere: % x", g.mem)
	}
	switch {
	case g.tab.Invalidate(fast, 1), g.tab.InvalidateRemote(fast, 1, aliasQP):
		t.Error("a region with a window was invalidated")
	case !errors.Is(g.tab.Dealloc(g.fast), ErrBound):
		t.Error("a region with a window was deallocated")
	}
	if !g.tab.Invalidate(b.Key, 1) || !g.tab.Invalidate(fast, 1) {
		t.Error("not invalidated in order")
	}
}

func TestDealloc(t *testing.T) {
	g := newAliasRig(t, bindable)
	for _, a := range []*Alias{g.w1, g.w2, g.fast} {
		key := g.mustBind(a, 0x1000, 8, ibv.AccessRemoteRead)
		if err := newTable(1).Dealloc(a); !errors.Is(err, ErrNotRegistered) {
			t.Errorf("in another table: %v", err)
		}
		if err := g.tab.Dealloc(a); err != nil {
			t.Fatal(err)
		}
		g.reach(key, aliasQP, 0, 0x1000, 8, FaultKey)
		if b := (Binding{Key: key ^ 1, LKey: g.r.LKey(), VA: 0x1000, Len: 8}); g.bind(a, b) {
			t.Error("bound after it was deallocated")
		}
		if err := g.tab.Dealloc(a); !errors.Is(err, ErrNotRegistered) {
			t.Errorf("twice: %v", err)
		}
	}
	if err := g.tab.Dealloc(nil); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("nil: %v", err)
	}
	if err := g.tab.Deregister(g.r); err != nil || g.tab.Count() != 0 {
		t.Errorf("%v, %d entries left", err, g.tab.Count())
	}
}

// The slot of an alias comes back with another key than the last that it had,
// although programs choose the keys of bindings.
func TestSlotOfAnAliasComesBackWithAnotherKey(t *testing.T) {
	tab := newTable(2)
	r := mustRegister(t, tab, 0, make([]byte, 8), bindable)
	for tag := range uint32(256) {
		a, err := tab.AllocWindow(1, ibv.MWType1)
		if err != nil {
			t.Fatal(err)
		}
		last := a.Key()
		if b := (Binding{Key: a.Key()&^0xff | tag, LKey: r.LKey(), Len: 8}); tab.BindWindow(1, aliasQP, &b) {
			last = b.Key
		}
		if err := tab.Dealloc(a); err != nil {
			t.Fatal(err)
		}
		next := mustRegisterAndForget(t, tab)
		if next == last {
			t.Fatalf("key %#x came back at once", next)
		}
	}
}

func mustRegisterAndForget(t *testing.T, tab *Table) uint32 {
	t.Helper()
	r := mustRegister(t, tab, 0, make([]byte, 8), 0)
	if err := tab.Deregister(r); err != nil {
		t.Fatal(err)
	}
	return r.RKey()
}

func TestUnbindQP(t *testing.T) {
	conformance.Rule(t, "10-20")
	g := newAliasRig(t, bindable)
	var keys []uint32
	var all []*Alias
	for range 4 + 2*unbindAtOnce {
		a, err := g.tab.AllocWindow(1, ibv.MWType2)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
		keys = append(keys, g.mustBind(a, 0x1000, 8, ibv.AccessRemoteRead))
	}
	b := g.to(g.w2, 0x1000, 8, 0)
	if !g.tab.BindWindow(1, aliasQP+1, &b) {
		t.Fatal("not bound")
	}
	k1 := g.mustBind(g.w1, 0x1000, 8, 0)
	// The list must hold when its ends and its middle leave.
	for _, i := range []int{1, 3} {
		if !g.tab.Invalidate(keys[i], 1) {
			t.Fatalf("window %d not invalidated", i)
		}
	}
	keys[1] = g.mustBind(all[1], 0x1000, 8, 0)
	g.tab.UnbindQP(aliasQP)
	for _, k := range keys {
		g.reach(k, aliasQP, 0, 0x1000, 8, FaultKey)
	}
	g.reach(b.Key, aliasQP+1, 0, 0x1000, 8, FaultNone)
	g.reach(k1, aliasQP, 0, 0x1000, 8, FaultNone)
	g.tab.UnbindQP(aliasQP) // of nothing
	if n := len(g.tab.byQP); n != 1 {
		t.Errorf("lists of %d queue pairs, want 1", n)
	}
}

// Memory that goes away behind a window takes the region with it.
func TestWindowOnMemoryThatGoesAway(t *testing.T) {
	g := newAliasRig(t, bindable)
	ind := &countingIndirect{}
	r, err := g.tab.RegisterIndirect(1, 0x4000, 64, ind, ibv.AccessLocalWrite|ibv.AccessMWBind)
	if err != nil {
		t.Fatal(err)
	}
	b := g.to(g.w2, 0x4010, 16, ibv.AccessRemoteWrite|ibv.AccessZeroBased)
	b.LKey = r.LKey()
	if !g.bind(g.w2, b) {
		t.Fatal("not bound")
	}
	v := g.reach(b.Key, aliasQP, ibv.AccessRemoteWrite, 0, 16, FaultNone)
	if !v.Write(1, make([]byte, 2)) || ind.at != 0x4011 {
		t.Errorf("wrote at %#x, want 0x4011", ind.at)
	}
	if !v.WriteFinal(2, make([]byte, 8)) || ind.at != 0x4018 { // the last word begins there
		t.Errorf("wrote the end at %#x, want 0x4018", ind.at)
	}
	ind.err = errors.New("gone")
	if v.Write(1, make([]byte, 2)) {
		t.Error("wrote to memory that is gone")
	}
	g.reach(b.Key, aliasQP, 0, 0, 1, FaultKey)
	if r.Valid() {
		t.Error("the region is valid")
	}
	if !g.tab.Invalidate(b.Key, 1) || g.tab.Deregister(r) != nil {
		t.Error("what is revoked cannot be freed")
	}
}

// countingIndirect remembers where it was written last.
type countingIndirect struct {
	at  uint64
	err error
}

func (c *countingIndirect) ReadAt([]byte, uint64) error { return c.err }
func (c *countingIndirect) WriteAt(_ []byte, va uint64) error {
	c.at = va
	return c.err
}

func TestAccessRemoteDoesNotAllocate(t *testing.T) {
	g := newAliasRig(t, bindable)
	key := g.mustBind(g.w2, 0x1000, 64, ibv.AccessRemoteWrite)
	if n := testing.AllocsPerRun(100, func() {
		if r, ok := g.tab.AccessRemote(key, 1, aliasQP, ibv.AccessRemoteWrite, 0x1000, 64); !ok || !r.Valid() {
			t.Fatal("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Workers look keys up while others bind and invalidate: what is found is the
// whole binding of that key, never parts of two.
func TestAccessBesideBind(t *testing.T) {
	g := newAliasRig(t, bindable)
	var wg, readers sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for i := range 4000 {
			// The tag says which bytes the key leads to.
			key := g.w2.Key()&^0xff | uint32(i%256)
			b := Binding{Key: key, LKey: g.r.LKey(), VA: 0x1000 + uint64(i%256)/2, Len: 1 + uint64(i%2), Access: ibv.AccessRemoteRead}
			if key == g.w2.Key() {
				continue
			}
			if !g.tab.BindWindow(1, aliasQP, &b) || !g.tab.Invalidate(key, 1) {
				t.Errorf("round %d was refused", i)
				return
			}
		}
	})
	for range 2 {
		readers.Go(func() {
			base := g.w2.Key() &^ 0xff
			for i := uint32(0); ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				tag := i % 256
				va := 0x1000 + uint64(tag)/2
				r, ok := g.tab.AccessRemote(base|tag, 1, aliasQP, ibv.AccessRemoteRead, va, 1)
				if ok && (r.Start() != va || r.Len() != 1+uint64(tag%2) || len(r.Slice(va, 1)) != 1) {
					t.Errorf("tag %d leads to %d bytes at %#x", tag, r.Len(), r.Start())
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	readers.Wait()
}
