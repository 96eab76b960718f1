package memory

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

const (
	allRemote = noAtomics | ibv.AccessRemoteAtomic
	noAtomics = ibv.AccessLocalWrite | ibv.AccessRemoteWrite | ibv.AccessRemoteRead
)

// newTable makes a table with the same keys in every run.
func newTable(limit int) *Table {
	return NewTable(limit, rand.New(rand.NewPCG(1, 2)).Uint32)
}

func mustRegister(t testing.TB, tab *Table, va uint64, data []byte, access ibv.Access) *Region {
	t.Helper()
	r, err := tab.Register(1, va, data, access)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRegisterGivesWhatItTook(t *testing.T) {
	tab := newTable(4)
	data := make([]byte, 100)
	r := mustRegister(t, tab, 0x1000, data, allRemote)
	if r.PD() != 1 || r.Start() != 0x1000 || r.Len() != 100 || r.Access() != allRemote || !r.Valid() {
		t.Errorf("PD %d, start %#x, length %d, access %v, valid %v", r.PD(), r.Start(), r.Len(), r.Access(), r.Valid())
	}
	if r.LKey() != r.RKey() || r.LKey()>>8 == 0 || r.LKey()>>8 > 4 {
		t.Errorf("lkey %#x, rkey %#x", r.LKey(), r.RKey())
	}
	if tab.Count() != 1 {
		t.Errorf("%d regions", tab.Count())
	}
}

func TestRegisterAccessRights(t *testing.T) {
	conformance.Rule(t, "10-7")
	for _, tc := range []struct {
		access ibv.Access
		want   string // empty: good
	}{
		{0, ""},
		{ibv.AccessLocalWrite, ""},
		{ibv.AccessRemoteRead, ""},
		{allRemote, ""},
		{allRemote | ibv.AccessMWBind | ibv.AccessFlushGlobal, ""},
		{ibv.AccessOnDemand | ibv.AccessHugeTLB | ibv.AccessRelaxedOrdering, ""},
		{ibv.AccessRemoteWrite, "REMOTE_WRITE needs LOCAL_WRITE"},
		{ibv.AccessRemoteWrite | ibv.AccessRemoteRead, "REMOTE_WRITE needs LOCAL_WRITE"},
		{ibv.AccessRemoteAtomic, "REMOTE_ATOMIC needs LOCAL_WRITE"},
		{ibv.AccessLocalWrite | ibv.AccessFlushPersistent, "FLUSH_PERSISTENT needs persistent memory"},
		{ibv.AccessLocalWrite | 1<<11, "unknown bits 0x800"},
		{1 << 31, "unknown bits 0x80000000"},
	} {
		tab := newTable(1)
		r, err := tab.Register(1, 0, make([]byte, 8), tc.access)
		if tc.want == "" {
			if err != nil || r.Access() != tc.access {
				t.Errorf("%v: %v", tc.access, err)
			}
			continue
		}
		if !errors.Is(err, ErrAccess) || !strings.Contains(err.Error(), tc.want) || tab.Count() != 0 {
			t.Errorf("%v: %v, want %q; %d regions", tc.access, err, tc.want, tab.Count())
		}
	}
}

func TestRegisterRanges(t *testing.T) {
	for _, tc := range []struct {
		name   string
		va, n  uint64
		access ibv.Access
		want   string // empty: good
	}{
		{"one byte at 0", 0, 1, 0, ""},
		{"last byte", math.MaxUint64, 1, 0, ""},
		{"up to the end", math.MaxUint64 - 99, 100, 0, ""},
		{"past the end", math.MaxUint64 - 98, 100, 0, "pass the end of the address space"},
		{"no bytes", 0x1000, 0, 0, "no bytes"},
		{"largest", 0, math.MaxInt64, 0, ""},
		{"too large", 0, math.MaxInt64 + 1, 0, "at most 2^63-1"},
		{"all", 0, math.MaxUint64, 0, "at most 2^63-1"},
		{"zero-based", 0, 8, ibv.AccessZeroBased, ""},
		{"zero-based elsewhere", 8, 8, ibv.AccessZeroBased, "starts at 0"},
	} {
		// Indirect memory has any size.
		_, err := newTable(1).RegisterIndirect(1, tc.va, tc.n, fakeIndirect{}, tc.access)
		if tc.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		if !errors.Is(err, ErrRange) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	if _, err := newTable(1).Register(1, 0x1000, nil, 0); !errors.Is(err, ErrRange) {
		t.Errorf("empty slice: %v", err)
	}
}

func TestIndirectTakesNoAtomics(t *testing.T) {
	_, err := newTable(1).RegisterIndirect(1, 0, 8, fakeIndirect{}, ibv.AccessLocalWrite|ibv.AccessRemoteAtomic)
	if !errors.Is(err, ErrAccess) || !strings.Contains(err.Error(), "REMOTE_ATOMIC") {
		t.Errorf("got %v", err)
	}
}

func TestTableFull(t *testing.T) {
	tab := newTable(3)
	var rs []*Region
	for range 3 {
		rs = append(rs, mustRegister(t, tab, 0, make([]byte, 8), 0))
	}
	_, err := tab.Register(1, 0, make([]byte, 8), 0)
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "all 3 are in use") {
		t.Fatalf("got %v", err)
	}
	if err := tab.Deregister(rs[1]); err != nil {
		t.Fatal(err)
	}
	if r := mustRegister(t, tab, 0, make([]byte, 8), 0); r.RKey()>>8 != rs[1].RKey()>>8 {
		t.Errorf("index %d, only %d was free", r.RKey()>>8, rs[1].RKey()>>8)
	}
}

func TestTableLimits(t *testing.T) {
	for _, tc := range []struct{ ask, get int }{{-1, 1}, {0, 1}, {1, 1}, {2, 2}} {
		tab := newTable(tc.ask)
		n := 0
		for ; n < 10; n++ {
			if _, err := tab.Register(1, 0, make([]byte, 8), 0); err != nil {
				break
			}
		}
		if n != tc.get {
			t.Errorf("NewTable(%d) holds %d", tc.ask, n)
		}
	}
}

func TestDeregister(t *testing.T) {
	tab, other := newTable(2), newTable(2)
	r := mustRegister(t, tab, 0x1000, make([]byte, 8), 0)
	key := r.RKey()
	if err := other.Deregister(r); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("in another table: %v", err)
	}
	if err := tab.Deregister(nil); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("nil: %v", err)
	}
	if _, ok := tab.Access(key, 1, 0, 0x1000, 8); !ok {
		t.Error("gone before it was deregistered")
	}
	if err := tab.Deregister(r); err != nil {
		t.Fatal(err)
	}
	if _, ok := tab.Access(key, 1, 0, 0x1000, 8); ok {
		t.Error("found after it was deregistered")
	}
	if err := tab.Deregister(r); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("twice: %v", err)
	}
	if tab.Count() != 0 {
		t.Errorf("%d regions", tab.Count())
	}
}

// A key that was given out before does not come back while its slot is reused
// 255 times, whatever the random numbers are.
func TestStaleKeysFail(t *testing.T) {
	conformance.Rule(t, "10-2")
	for _, seed := range []uint32{0, 1, 0xff, 0x100, 0xfeff, 0xffffffff, 0x12345678} {
		tab := NewTable(1, func() uint32 { return seed })
		seen := map[uint32]bool{}
		for i := range 256 {
			r := mustRegister(t, tab, 0, make([]byte, 8), 0)
			if seen[r.RKey()] {
				t.Fatalf("seed %#x: key %#x came back after %d registrations", seed, r.RKey(), i)
			}
			for k := range seen {
				if _, ok := tab.Access(k, 1, 0, 0, 8); ok {
					t.Fatalf("seed %#x: stale key %#x works", seed, k)
				}
			}
			seen[r.RKey()] = true
			if err := tab.Deregister(r); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestKeysAreRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	low := map[uint32]int{}
	for range 2000 {
		r := mustRegister(t, NewTable(1, rnd.Uint32), 0, make([]byte, 8), 0)
		low[r.RKey()&0xff]++
	}
	if len(low) != 256 {
		t.Errorf("%d of 256 values in 2000 tables", len(low))
	}
}

// Indices are reused as late as possible.
func TestSlotsAreReusedInTurn(t *testing.T) {
	tab := newTable(4)
	var order []uint32
	for range 8 {
		r := mustRegister(t, tab, 0, make([]byte, 8), 0)
		order = append(order, r.RKey()>>8)
		if err := tab.Deregister(r); err != nil {
			t.Fatal(err)
		}
	}
	for i, index := range order {
		if want := uint32(i%4) + 1; index != want {
			t.Fatalf("indices %v", order)
		}
	}
}
