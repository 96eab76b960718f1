package memory

import (
	"errors"
	"os"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// A fault on on-demand memory fails the access that meets it; when the page is
// there again the next access works, and the rest of the region always does.
func TestOnDemandFaults(t *testing.T) {
	page := uint64(os.Getpagesize())
	word := func(ok bool, _ uint64) bool { return ok }
	for name, access := range map[string]func(*Region) bool{
		"read":        func(r *Region) bool { return r.Read(page-8, make([]byte, 16)) },
		"write":       func(r *Region) bool { return r.Write(page-8, make([]byte, 16)) },
		"final write": func(r *Region) bool { return r.WriteFinal(page-8, make([]byte, 16)) },
		"fetch-add":   func(r *Region) bool { orig, ok := r.FetchAdd(page, 1); return word(ok, orig) },
		"swap":        func(r *Region) bool { orig, ok := r.CompareSwap(page, 0, 1); return word(ok, orig) },
		"store":       func(r *Region) bool { return r.StoreWord(page, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			mem, resize := resizable(t)
			tab := newTable(2)
			r, err := tab.RegisterOnDemand(1, 0, mem, allRemote)
			if err != nil {
				t.Fatal(err)
			}
			if r.Access()&ibv.AccessOnDemand == 0 || r.Slice(0, 8) != nil {
				t.Error("a slice of memory that may go away")
			}
			for range 2 {
				if !access(r) {
					t.Fatal("refused while the page is there")
				}
				resize(1)
				if access(r) {
					t.Fatal("done without the page")
				}
				if _, ok := tab.Access(r.RKey(), 1, 0, 0, 8); !ok || !r.Valid() || !r.Write(0, make([]byte, 8)) {
					t.Error("the rest of the region is gone too")
				}
				resize(2)
			}
		})
	}
}

// A window of on-demand memory lasts like its region; one of memory that a client
// can take away goes with it.
func TestOnDemandWindowLasts(t *testing.T) {
	for _, tt := range []struct {
		name     string
		register func(*Table, PD, uint64, []byte, ibv.Access) (*Region, error)
		lasts    bool
	}{{"on demand", (*Table).RegisterOnDemand, true}, {"revocable", (*Table).RegisterRevocable, false}} {
		t.Run(tt.name, func(t *testing.T) {
			mem, resize := resizable(t)
			tab := newTable(4)
			r, err := tt.register(tab, 1, 0x10000, mem, allRemote|ibv.AccessMWBind)
			if err != nil {
				t.Fatal(err)
			}
			w, err := tab.AllocWindow(1, ibv.MWType2)
			if err != nil {
				t.Fatal(err)
			}
			b := Binding{Key: w.Key() ^ 1, LKey: r.LKey(), VA: r.Start(), Len: r.Len(), Access: ibv.AccessRemoteWrite}
			if !tab.BindWindow(1, 7, &b) {
				t.Fatal("not bound")
			}
			v, ok := tab.AccessRemote(b.Key, 1, 7, ibv.AccessRemoteWrite, r.Start(), r.Len())
			if !ok {
				t.Fatal("no access")
			}
			resize(1)
			if v.Write(r.Start(), make([]byte, len(mem))) {
				t.Error("written to a page that is not there")
			}
			resize(2)
			if got := v.Write(r.Start(), make([]byte, len(mem))); got != tt.lasts {
				t.Errorf("written: %v, want %v", got, tt.lasts)
			}
			if _, ok := tab.AccessRemote(b.Key, 1, 7, 0, r.Start(), 1); ok != tt.lasts {
				t.Errorf("the key works: %v, want %v", ok, tt.lasts)
			}
		})
	}
}

func TestImplicit(t *testing.T) {
	tab := newTable(4)
	ind := newIndirect(0x1000, 256)
	for _, bad := range []ibv.Access{allRemote, noAtomics | ibv.AccessMWBind, ibv.AccessRemoteWrite} {
		if _, err := tab.RegisterImplicit(1, ind, bad); !errors.Is(err, ErrAccess) {
			t.Errorf("rights %v: %v", bad, err)
		}
	}
	r, err := tab.RegisterImplicit(1, ind, noAtomics)
	if err != nil {
		t.Fatal(err)
	}
	if r.Start() != 0 || r.Len() != 1<<63-1 {
		t.Errorf("%d bytes at %#x", r.Len(), r.Start())
	}
	for range 2 {
		if !r.Write(0x1010, []byte{1, 2, 3}) || ind.mem[0x12] != 3 {
			t.Error("not written")
		}
		*ind.fail = true
		if r.Write(0x1010, []byte{9}) || r.Read(0x1010, make([]byte, 1)) || r.WriteFinal(0x1010, []byte{9}) {
			t.Error("done without memory")
		}
		*ind.fail = false
	}
	for _, tt := range []struct {
		va, n uint64
		want  bool
	}{{0, 1, true}, {ImplicitLen - 1, 1, true}, {ImplicitLen - 1, 2, false}, {1 << 63, 1, false}, {^uint64(0), 1, false}, {^uint64(0), ^uint64(0), false}} {
		if _, ok := tab.Access(r.RKey(), 1, ibv.AccessRemoteWrite, tt.va, tt.n); ok != tt.want {
			t.Errorf("%d bytes at %#x: %v", tt.n, tt.va, ok)
		}
	}
	if r.Atomic(0x1000) || r.StoreWord(0x1000, 1) {
		t.Error("an implicit region has atomics")
	}
}
