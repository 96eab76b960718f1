package memory

import (
	"math"
	"sync"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

func TestEveryFault(t *testing.T) {
	conformance.Rule(t, "10-1", "10-3")
	tab := newTable(8)
	r := mustRegister(t, tab, 0x1000, make([]byte, 0x100), ibv.AccessLocalWrite|ibv.AccessRemoteRead)
	high := mustRegister(t, tab, math.MaxUint64-0xff, make([]byte, 0x100), 0)
	low := mustRegister(t, tab, 0, make([]byte, 0x100), 0)
	key := r.RKey()
	for _, tc := range []struct {
		name  string
		key   uint32
		pd    PD
		need  ibv.Access
		va, n uint64
		want  Fault
	}{
		{"all of it", key, 1, ibv.AccessRemoteRead, 0x1000, 0x100, FaultNone},
		{"first byte", key, 1, 0, 0x1000, 1, FaultNone},
		{"last byte", key, 1, 0, 0x10ff, 1, FaultNone},
		{"nothing at the end", key, 1, 0, 0x1100, 0, FaultNone},
		{"both rights", key, 1, ibv.AccessLocalWrite | ibv.AccessRemoteRead, 0x1010, 4, FaultNone},
		{"key 0", 0, 1, 0, 0x1000, 1, FaultKey},
		{"key 255", 0xff, 1, 0, 0x1000, 1, FaultKey},
		{"wrong low byte", key ^ 1, 1, 0, 0x1000, 1, FaultKey},
		{"free slot", 7<<8 | key&0xff, 1, 0, 0x1000, 1, FaultKey},
		{"last slot", 8 << 8, 1, 0, 0x1000, 1, FaultKey},
		{"past the table", 9 << 8, 1, 0, 0x1000, 1, FaultKey},
		{"largest key", math.MaxUint32, 1, 0, 0x1000, 1, FaultKey},
		{"other domain", key, 2, 0, 0x1000, 1, FaultPD},
		{"right missing", key, 1, ibv.AccessRemoteWrite, 0x1000, 1, FaultAccess},
		{"one of two missing", key, 1, ibv.AccessRemoteRead | ibv.AccessRemoteAtomic, 0x1000, 8, FaultAccess},
		{"byte before", key, 1, 0, 0xfff, 1, FaultRange},
		{"byte after", key, 1, 0, 0x1100, 1, FaultRange},
		{"one too long", key, 1, 0, 0x1000, 0x101, FaultRange},
		{"begins before", key, 1, 0, 0xfff, 0x100, FaultRange},
		{"spans it", key, 1, 0, 0xfff, 0x102, FaultRange},
		{"nothing after the end", key, 1, 0, 0x1101, 0, FaultRange},
		{"end wraps to inside", key, 1, 0, 0x1010, math.MaxUint64, FaultRange},
		{"end wraps to 0", key, 1, 0, 0x1000, math.MaxUint64 - 0xfff, FaultRange},
		{"start wraps", key, 1, 0, math.MaxUint64, 2, FaultRange},
		{"longest", key, 1, 0, 0, math.MaxUint64, FaultRange},
		{"last byte of the address space", high.RKey(), 1, 0, math.MaxUint64, 1, FaultNone},
		{"past the address space", high.RKey(), 1, 0, math.MaxUint64, 2, FaultRange},
		{"wraps past the address space", high.RKey(), 1, 0, 0, 1, FaultRange},
		{"first byte of the address space", low.RKey(), 1, 0, 0, 1, FaultNone},
		{"before the address space", low.RKey(), 1, 0, math.MaxUint64, 1, FaultRange},
		{"from the end into low", low.RKey(), 1, 0, math.MaxUint64 - 0xff, 0x200, FaultRange},
	} {
		got, fault := tab.Check(tc.key, tc.pd, tc.need, tc.va, tc.n)
		if fault != tc.want || (got != nil) != (tc.want == FaultNone) {
			t.Errorf("%s: %v, want %v", tc.name, fault, tc.want)
		}
		if again, ok := tab.Access(tc.key, tc.pd, tc.need, tc.va, tc.n); ok != (tc.want == FaultNone) || again != got {
			t.Errorf("%s: Access says %v", tc.name, ok)
		}
	}
}

func TestFaultNames(t *testing.T) {
	seen := map[string]bool{}
	for f := FaultNone; f <= FaultRange+1; f++ {
		if s := f.String(); s == "" || seen[s] {
			t.Errorf("fault %d is %q", f, s)
		} else {
			seen[s] = true
		}
	}
	if s := Fault(200).String(); s != "unknown fault" {
		t.Errorf("fault 200 is %q", s)
	}
}

func TestAccessDoesNotAllocate(t *testing.T) {
	tab := newTable(4)
	r := mustRegister(t, tab, 0x1000, make([]byte, 4096), allRemote)
	src, dst := make([]byte, 100), make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		r, ok := tab.Access(r.RKey(), 1, ibv.AccessRemoteWrite, 0x1000, 4096)
		if !ok || !r.Write(0x1001, src) || !r.WriteFinal(0x1002, src) || !r.Read(0x1003, dst) || r.Slice(0x1004, 5) == nil {
			t.Fatal("refused")
		}
		r.CompareSwap(0x1008, 1, 2)
		r.FetchAdd(0x1008, 1)
		r.StoreWord(0x1008, 1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Workers look keys up while regions come and go: what is found is always the
// region of that key, whole.
func TestAccessBesideRegister(t *testing.T) {
	const rounds = 2000
	tab := newTable(8)
	keep := mustRegister(t, tab, 0x9000, make([]byte, 64), allRemote)
	var keys [4]struct {
		sync.Mutex
		key uint32
	}
	var wg, readers sync.WaitGroup
	stop := make(chan struct{})
	for i := range keys {
		wg.Go(func() {
			for range rounds {
				r, err := tab.Register(PD(i+1), uint64(i+1)<<16, make([]byte, 64), allRemote)
				if err != nil {
					t.Error(err)
					return
				}
				keys[i].Lock()
				keys[i].key = r.RKey()
				keys[i].Unlock()
				if got, ok := tab.Access(r.RKey(), PD(i+1), 0, r.Start(), 64); !ok || got != r {
					t.Error("own region not found")
				}
				if err := tab.Deregister(r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				k := &keys[i%len(keys)]
				k.Lock()
				key := k.key
				k.Unlock()
				pd := PD(i%len(keys) + 1)
				if r, ok := tab.Access(key, pd, 0, uint64(pd)<<16, 64); ok && (r.RKey() != key || r.PD() != pd || len(r.Slice(r.Start(), 64)) != 64) {
					t.Errorf("key %#x found region %#x of domain %d", key, r.RKey(), r.PD())
				}
				if _, ok := tab.Access(keep.RKey(), 1, 0, 0x9000, 64); !ok {
					t.Error("a region that stays was not found")
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	readers.Wait()
	if tab.Count() != 1 {
		t.Errorf("%d regions left", tab.Count())
	}
}
