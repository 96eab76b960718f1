package memory

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
)

// Every length and alignment up to three words: the right bytes are written and
// no others.
func TestWriteFinalEveryLengthAndAlignment(t *testing.T) {
	each(t, func(t *testing.T, r *Region, mem []byte) {
		want := make([]byte, len(mem))
		for off := range 9 {
			for n := range 26 {
				for _, at := range []int{off, len(mem) - n - off} {
					for i := range mem {
						mem[i] = byte(i) ^ 0xa5
					}
					copy(want, mem)
					src := pattern(n, byte(off))
					copy(want[at:], src)
					if !r.WriteFinal(0x1000+uint64(at), src) {
						t.Fatalf("%d bytes at %d refused", n, at)
					}
					if !bytes.Equal(mem, want) {
						t.Fatalf("%d bytes at %d: got %x, want %x", n, at, mem, want)
					}
				}
			}
		}
	})
}

func TestWriteFinalOfIndirectWritesTheEndLast(t *testing.T) {
	ind := newIndirect(0x1000, 256)
	r, err := newTable(1).RegisterIndirect(1, 0x1000, 256, ind, noAtomics)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		va   uint64
		n    int
		want []uint64
	}{
		{0x1000, 8, []uint64{0x1000}},
		{0x1003, 2, []uint64{0x1003}},
		{0x1000, 16, []uint64{0x1000, 0x1008}},
		{0x1001, 16, []uint64{0x1001, 0x1010}},
		{0x1004, 100, []uint64{0x1004, 0x1060}},
	} {
		*ind.log = nil
		if !r.WriteFinal(tc.va, pattern(tc.n, 1)) {
			t.Fatal("refused")
		}
		if got := *ind.log; len(got) != len(tc.want) || got[0] != tc.want[0] || got[len(got)-1] != tc.want[len(tc.want)-1] {
			t.Errorf("%d bytes at %#x: written at %#x, want %#x", tc.n, tc.va, got, tc.want)
		}
	}
}

// A program that polls on the last word of a message must see all of it. Under
// the race detector this also shows the ordering that WriteFinal promises.
func TestPollerSeesWholeMessage(t *testing.T) {
	conformance.Rule(t, "10-16")
	for _, tail := range []int{0, 1, 7} { // bytes that the message ends before a word's end
		mem := alignedBytes(512)
		r := mustRegister(t, newTable(1), 0, mem, allRemote)
		n := len(mem) - tail
		word, _ := wordOf(mem, n-1)
		shift := 8 * ((n - 1) & 7)
		if !littleEndian() {
			shift = 56 - shift
		}
		last := func() byte { return byte(word.Load() >> shift) }
		var ack atomic.Uint32
		deadline := time.Now().Add(20 * time.Second)
		var wg sync.WaitGroup
		wg.Go(func() {
			msg := make([]byte, n)
			for round := 1; round <= 200; round++ {
				for i := range msg {
					msg[i] = byte(round)
				}
				// Two packets: the first is an ordinary write.
				r.Write(0, msg[:n/2])
				r.WriteFinal(uint64(n/2), msg[n/2:])
				for ack.Load() != uint32(round) {
					if time.Now().After(deadline) {
						return
					}
					yield()
				}
			}
		})
		for round := 1; round <= 200; round++ {
			for last() != byte(round) {
				if time.Now().After(deadline) {
					t.Fatalf("round %d: nothing came", round)
				}
				yield()
			}
			for i, b := range mem[:n&^7] {
				if b != byte(round) {
					t.Fatalf("tail %d, round %d: byte %d is still %d", tail, round, i, b)
				}
			}
			ack.Store(uint32(round))
		}
		wg.Wait()
	}
}

// The bytes behind a message that ends inside a word belong to someone else,
// whose stores must not be lost.
func TestWriteFinalKeepsNeighboursStores(t *testing.T) {
	mem := alignedBytes(8)
	r := mustRegister(t, newTable(1), 0, mem[:4], allRemote)
	word, _ := wordOf(mem, 0)
	const rounds = 20000
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range rounds {
			r.WriteFinal(0, []byte{byte(i), byte(i), byte(i), byte(i)})
		}
	})
	// The neighbour counts in the upper half of the word.
	unit := uint64(1) << 32
	if !littleEndian() {
		unit = 1
	}
	for range rounds {
		word.Add(unit)
	}
	wg.Wait()
	got := word.Load()
	if littleEndian() {
		got >>= 32
	}
	if uint32(got) != rounds {
		t.Errorf("neighbour counted to %d, want %d", uint32(got), rounds)
	}
	final := byte((rounds - 1) & 0xff)
	if want := []byte{final, final, final, final}; !bytes.Equal(mem[:4], want) {
		t.Errorf("message is %x, want %x", mem[:4], want)
	}
}
