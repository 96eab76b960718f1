package memory

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

const (
	moveIt   = ibv.ReregTranslation
	otherPD  = ibv.ReregPD
	newRight = ibv.ReregAccess
)

func TestReregister(t *testing.T) {
	oldMem, newMem := pattern(128, 1), pattern(64, 2)
	for flags := ibv.ReregFlags(0); flags <= moveIt|otherPD|newRight; flags++ {
		t.Run(fmt.Sprint(flags), func(t *testing.T) {
			tab := newTable(2)
			old := mustRegister(t, tab, 0x1000, oldMem, allRemote)
			r, err := tab.Reregister(old, &Change{Flags: flags, PD: 2, VA: 0x8000, Data: newMem, Access: ibv.AccessRemoteRead})
			if err != nil {
				t.Fatal(err)
			}
			pd, va, mem, access := PD(1), uint64(0x1000), oldMem, allRemote
			if flags&otherPD != 0 {
				pd = 2
			}
			if flags&moveIt != 0 {
				va, mem = 0x8000, newMem
			}
			if flags&newRight != 0 {
				access = ibv.AccessRemoteRead
			}
			if r.PD() != pd || r.Start() != va || r.Len() != uint64(len(mem)) || r.Access() != access {
				t.Errorf("domain %d, %d bytes at %#x, %v", r.PD(), r.Len(), r.Start(), r.Access())
			}
			if moved := r.RKey() != old.RKey(); moved != (flags&moveIt != 0) || r.RKey()>>8 != old.RKey()>>8 || r.LKey() != r.RKey() {
				t.Errorf("key %#x after %#x", r.RKey(), old.RKey())
			}
			got, fault := tab.Check(r.RKey(), pd, access, va, uint64(len(mem)))
			if fault != FaultNone || got != r || r.Slice(va, 1)[0] != mem[0] {
				t.Errorf("the new key leads to %v: %v", got, fault)
			}
			for _, wrong := range []struct {
				key  uint32
				pd   PD
				need ibv.Access
				va   uint64
				want Fault
			}{
				{r.RKey(), 3 - pd, 0, va, FaultPD},
				{r.RKey(), pd, 0, va + uint64(len(mem)), FaultRange},
				{r.RKey(), pd, allRemote &^ access, va, FaultAccess},
				{old.RKey(), pd, 0, va, FaultKey},
			} {
				if wrong.key == r.RKey() && wrong.want == FaultKey || wrong.want == FaultAccess && wrong.need == 0 {
					continue // the key has stayed, or all rights
				}
				if _, fault := tab.Check(wrong.key, wrong.pd, wrong.need, wrong.va, 1); fault != wrong.want {
					t.Errorf("%+v: %v", wrong, fault)
				}
			}
			if err := tab.Deregister(old); !errors.Is(err, ErrNotRegistered) {
				t.Errorf("deregister the old one: %v", err)
			}
			if err := tab.Deregister(r); err != nil || tab.Count() != 0 {
				t.Errorf("deregister: %v, %d are left", err, tab.Count())
			}
		})
	}
}

// What is refused leaves the region as it was.
func TestReregisterRefuses(t *testing.T) {
	tab := newTable(4)
	mem := pattern(128, 1)
	r := mustRegister(t, tab, 0x1000, mem, allRemote|ibv.AccessMWBind)
	gone := mustRegister(t, tab, 0x1000, mem, allRemote)
	if err := tab.Deregister(gone); err != nil {
		t.Fatal(err)
	}
	implicit, err := tab.RegisterImplicit(1, newIndirect(0, 8), noAtomics)
	if err != nil {
		t.Fatal(err)
	}
	w, err := tab.AllocWindow(1, ibv.MWType1)
	if err != nil {
		t.Fatal(err)
	}
	bound := mustRegister(t, tab, 0x2000, mem, allRemote|ibv.AccessMWBind)
	if !tab.BindWindow(1, 0, &Binding{Key: w.Key() ^ 1, LKey: bound.LKey(), VA: 0x2000, Len: 8}) {
		t.Fatal("not bound")
	}
	for _, tt := range []struct {
		name string
		r    *Region
		c    Change
		want error
	}{
		{"nothing", nil, Change{}, ErrNotRegistered},
		{"deregistered", gone, Change{Flags: otherPD, PD: 2}, ErrNotRegistered},
		{"of another table", mustRegister(t, newTable(1), 0, mem, 0), Change{}, ErrNotRegistered},
		{"no bytes", r, Change{Flags: moveIt, VA: 0x3000}, ErrRange},
		{"past the end", r, Change{Flags: moveIt, VA: ^uint64(0) - 3, Data: mem}, ErrRange},
		{"rights that do not go together", r, Change{Flags: newRight, Access: ibv.AccessRemoteWrite}, ErrAccess},
		{"unknown rights", r, Change{Flags: newRight | moveIt, VA: 0x3000, Data: mem, Access: 1 << 30}, ErrAccess},
		{"zero-based, but not at 0", r, Change{Flags: newRight, Access: ibv.AccessZeroBased}, ErrRange},
		{"implicit", implicit, Change{Flags: moveIt, VA: 0x3000, Data: mem}, ErrRange},
		{"with a window", bound, Change{Flags: otherPD, PD: 2}, ErrBound},
	} {
		if _, err := tab.Reregister(tt.r, &tt.c); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	for _, old := range []*Region{r, bound} {
		if got, fault := tab.Check(old.RKey(), 1, allRemote, old.Start(), old.Len()); fault != FaultNone || got != old {
			t.Errorf("the region at %#x has changed: %v", old.Start(), fault)
		}
	}
}

// ON_DEMAND changes how memory is reached, both ways.
func TestReregisterOnDemand(t *testing.T) {
	mem, resize := resizable(t)
	tab := newTable(1)
	r := mustRegister(t, tab, 0, mem, allRemote)
	change := func(c Change) {
		t.Helper()
		var err error
		if r, err = tab.Reregister(r, &c); err != nil {
			t.Fatal(err)
		}
	}
	change(Change{Flags: newRight, Access: allRemote | ibv.AccessOnDemand})
	resize(1)
	if r.Write(uint64(len(mem)-8), make([]byte, 8)) || !r.Valid() {
		t.Error("written to a page that is not there, or the region is gone")
	}
	resize(2)
	change(Change{Flags: newRight, Access: allRemote})
	if r.Slice(0, 8) == nil {
		t.Error("memory that stays has no slice")
	}
}

// What was revoked does not come back with other rights, but with other memory.
func TestReregisterRevoked(t *testing.T) {
	mem, truncate := truncatable(t)
	tab := newTable(1)
	r, err := tab.RegisterRevocable(1, 0, mem, allRemote)
	if err != nil {
		t.Fatal(err)
	}
	truncate()
	if r.Write(uint64(len(mem)-8), make([]byte, 8)) {
		t.Fatal("written")
	}
	if r, err = tab.Reregister(r, &Change{Flags: newRight, Access: noAtomics}); err != nil {
		t.Fatal(err)
	}
	if _, ok := tab.Access(r.RKey(), 1, 0, 0, 8); ok || r.Valid() || r.Read(0, make([]byte, 8)) {
		t.Error("usable again")
	}
	if r, err = tab.Reregister(r, &Change{Flags: moveIt, Data: make([]byte, 8)}); err != nil {
		t.Fatal(err)
	}
	if _, ok := tab.Access(r.RKey(), 1, 0, 0, 8); !ok || !r.Read(0, make([]byte, 8)) {
		t.Error("new memory is refused")
	}
}

// TestReregisterBesideAccess: who looks keys up meanwhile finds the one region or
// the other, and never a mixture.
func TestReregisterBesideAccess(t *testing.T) {
	tab := newTable(1)
	mems := [2][]byte{pattern(64, 1), pattern(64, 2)}
	r := mustRegister(t, tab, 0x1000, mems[0], allRemote)
	var key atomic.Uint32
	key.Store(r.RKey())
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !stop.Load() {
				for pd := PD(1); pd <= 2; pd++ {
					if got, ok := tab.Access(key.Load(), pd, 0, 0x1000, 64); ok && got.Slice(0x1000, 1)[0] != mems[pd-1][0] {
						t.Errorf("domain %d reaches the memory of the other", pd)
						return
					}
				}
			}
		})
	}
	for i := range 3000 {
		pd := PD(1 + (i+1)%2)
		var err error
		if r, err = tab.Reregister(r, &Change{Flags: moveIt | otherPD, PD: pd, VA: 0x1000, Data: mems[pd-1]}); err != nil {
			t.Fatal(err)
		}
		key.Store(r.RKey())
	}
	stop.Store(true)
	wg.Wait()
}

// A table has room for as many regions as it was made for, in pages that are made
// as they are needed.
func TestTableOfManyPages(t *testing.T) {
	const limit = 2500
	tab := newTable(limit)
	if p := tab.pages[0].Load(); p != nil || len(tab.pages) != 3 {
		t.Errorf("%d pages, the first is %p", len(tab.pages), p)
	}
	if _, ok := tab.Access(2000<<8, 1, 0, 0, 1); ok {
		t.Error("a key in a page that is not there")
	}
	keys := map[uint32]bool{}
	for i := range uint64(limit) {
		keys[mustRegister(t, tab, i<<8, make([]byte, 8), 0).RKey()] = true
	}
	if len(keys) != limit {
		t.Errorf("%d keys", len(keys))
	}
	if _, err := tab.Register(1, 0, make([]byte, 8), 0); !errors.Is(err, ErrFull) {
		t.Errorf("one too many: %v", err)
	}
	for k := range keys {
		if _, ok := tab.Access(k, 1, 0, uint64(k>>8-1)<<8, 8); !ok {
			t.Fatalf("key %#x does not work", k)
		}
	}
}
