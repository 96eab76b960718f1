package memory

import (
	"bytes"
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

func yield() { runtime.Gosched() }

func littleEndian() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }

// alignedBytes is n bytes at an address that is a multiple of 8.
func alignedBytes(n int) []byte {
	b := make([]byte, n+7)
	skip := int(-AddressOf(b) & 7)
	return b[skip : skip+n : skip+n]
}

func TestAtomics(t *testing.T) {
	for name, register := range map[string]func(*Table, PD, uint64, []byte, ibv.Access) (*Region, error){
		"direct": (*Table).Register, "revocable": (*Table).RegisterRevocable, "on demand": (*Table).RegisterOnDemand,
	} {
		t.Run(name, func(t *testing.T) {
			mem := alignedBytes(64)
			r, err := register(newTable(1), 1, 0x1000, mem, allRemote)
			if err != nil {
				t.Fatal(err)
			}
			testAtomics(t, r, mem)
		})
	}
}

// testAtomics works on the 64 zero bytes at 0x1000.
func testAtomics(t *testing.T, r *Region, mem []byte) {
	at8 := func() uint64 { return binary.NativeEndian.Uint64(mem[8:]) }

	if !r.StoreWord(0x1008, 41) || at8() != 41 {
		t.Errorf("stored %d", at8())
	}
	if orig, ok := r.FetchAdd(0x1008, 1); !ok || orig != 41 || at8() != 42 {
		t.Errorf("added: was %d, is %d, %v", orig, at8(), ok)
	}
	if orig, ok := r.FetchAdd(0x1008, math.MaxUint64); !ok || orig != 42 || at8() != 41 {
		t.Errorf("added -1: was %d, is %d, %v", orig, at8(), ok)
	}
	if orig, ok := r.CompareSwap(0x1008, 7, 9); !ok || orig != 41 || at8() != 41 {
		t.Errorf("compared unequal: was %d, is %d, %v", orig, at8(), ok)
	}
	if orig, ok := r.CompareSwap(0x1008, 41, math.MaxUint64); !ok || orig != 41 || at8() != math.MaxUint64 {
		t.Errorf("swapped: was %d, is %d, %v", orig, at8(), ok)
	}
	if orig, ok := r.FetchAdd(0x1008, 2); !ok || orig != math.MaxUint64 || at8() != 1 {
		t.Errorf("wrapped: was %d, is %d, %v", orig, at8(), ok)
	}
	if !bytes.Equal(mem[:8], make([]byte, 8)) || !bytes.Equal(mem[16:], make([]byte, 48)) {
		t.Error("other words changed")
	}
}

// Payload of an atomic write is stored as it came.
func TestStoreWordOfRawBytes(t *testing.T) {
	mem := alignedBytes(8)
	r := mustRegister(t, newTable(1), 0, mem, allRemote)
	raw := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	if !r.StoreWord(0, binary.NativeEndian.Uint64(raw)) || !bytes.Equal(mem, raw) {
		t.Errorf("got %x", mem)
	}
}

func TestAtomicsRefused(t *testing.T) {
	tab := newTable(8)
	mem := alignedBytes(72)
	aligned := mustRegister(t, tab, 0x1000, mem[:64], allRemote)
	skewed := mustRegister(t, tab, 0x1000, mem[4:68], allRemote)
	ind, err := tab.RegisterIndirect(1, 0x1000, 64, newIndirect(0x1000, 64), noAtomics)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		r    *Region
		va   uint64
	}{
		{"address not a multiple of 8", aligned, 0x1004},
		{"memory not a multiple of 8", skewed, 0x1008},
		{"both off, not the same way", skewed, 0x1002},
		{"before", aligned, 0xff8},
		{"after", aligned, 0x1040},
		{"wraps", aligned, math.MaxUint64 - 7},
		{"indirect", ind, 0x1008},
	} {
		if tc.r.Atomic(tc.va) {
			t.Errorf("%s: Atomic", tc.name)
		}
		if _, ok := tc.r.CompareSwap(tc.va, 0, 1); ok {
			t.Errorf("%s: CompareSwap", tc.name)
		}
		if _, ok := tc.r.FetchAdd(tc.va, 1); ok {
			t.Errorf("%s: FetchAdd", tc.name)
		}
		if tc.r.StoreWord(tc.va, 1) {
			t.Errorf("%s: StoreWord", tc.name)
		}
	}
	if !bytes.Equal(mem, make([]byte, len(mem))) {
		t.Error("memory changed")
	}
	// The last whole word is the program's address that counts, not the peer's.
	if !aligned.Atomic(0x1038) || skewed.Atomic(0x1038) {
		t.Error("last word")
	}
}

func TestAtomicsAreAtomic(t *testing.T) {
	conformance.Rule(t, "10-9")
	mem := alignedBytes(16)
	tab := newTable(2)
	a := mustRegister(t, tab, 0, mem, allRemote)
	b := mustRegister(t, tab, 0x5000, mem, allRemote) // the same bytes under another key
	const rounds = 5000
	var wg sync.WaitGroup
	for _, at := range []struct {
		r  *Region
		va uint64
	}{{a, 8}, {b, 0x5008}} {
		wg.Go(func() {
			for range rounds {
				at.r.FetchAdd(at.va, 1)
			}
		})
		wg.Go(func() {
			for range rounds {
				for {
					old, _ := at.r.FetchAdd(at.va, 0)
					if was, _ := at.r.CompareSwap(at.va, old, old+1); was == old {
						break
					}
				}
			}
		})
	}
	wg.Wait()
	if got := binary.NativeEndian.Uint64(mem[8:]); got != 4*rounds {
		t.Errorf("counted to %d, want %d", got, 4*rounds)
	}
}
