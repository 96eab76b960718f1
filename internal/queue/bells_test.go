package queue

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// newBells makes doorbells with the given memory, so that tests can corrupt it.
func newBells(t testing.TB, slots int) (*Bells, []byte) {
	t.Helper()
	n, err := BellsSize(slots)
	if err != nil {
		t.Fatal(err)
	}
	mem := alignedBytes(n)
	b, err := OpenBells(mem, slots)
	if err != nil {
		t.Fatal(err)
	}
	return b, mem
}

func TestBellsSize(t *testing.T) {
	for _, tt := range []struct{ slots, bytes int }{{1, 136}, {64, 136}, {65, 144}, {4096, 128 + 512}, {MaxSlots, 128 + 4096}} {
		if n, err := BellsSize(tt.slots); n != tt.bytes || err != nil {
			t.Errorf("%d slots: %d bytes, %v; want %d", tt.slots, n, err, tt.bytes)
		}
	}
	for _, slots := range []int{-1, 0, MaxSlots + 1} {
		if _, err := NewBells(slots); !errors.Is(err, ErrLayout) {
			t.Errorf("%d slots: %v, want ErrLayout", slots, err)
		}
	}
	mem := alignedBytes(136)
	for name, mem := range map[string][]byte{"short": mem[:135], "unaligned": append(alignedBytes(8), mem...)[1:]} {
		if _, err := OpenBells(mem, 1); !errors.Is(err, ErrLayout) {
			t.Errorf("%s memory: %v, want ErrLayout", name, err)
		}
	}
}

// The memory is an ABI: literal offsets.
func TestBellsLayout(t *testing.T) {
	b, mem := newBells(t, MaxSlots)
	b.Ring(0)
	b.Ring(4096*3 + 64*5 + 7)
	b.SetCPU(41)
	for _, tt := range []struct {
		name string
		off  int
		want uint64
	}{
		{"summary 0", 0, 1}, {"summary 3", 24, 1 << 5}, {"CPU", 64, 42}, {"leaf 0", 128, 1}, {"leaf 197", 128 + 8*(64*3+5), 1 << 7},
	} {
		if got := binary.NativeEndian.Uint64(mem[tt.off:]); got != tt.want {
			t.Errorf("%s at %d is %#x, want %#x", tt.name, tt.off, got, tt.want)
		}
	}
}

// What a client says of its CPU is told as it is, sense or not, and nothing if it has
// said nothing.
func TestBellsCPU(t *testing.T) {
	b, _ := newBells(t, 1)
	if got := b.CPU(); got != -1 {
		t.Errorf("nothing was said: %d", got)
	}
	for _, cpu := range []int{0, 1, 8191, 1<<32 - 2, -1} {
		b.SetCPU(cpu)
		if got := b.CPU(); got != cpu {
			t.Errorf("%d said: %d", cpu, got)
		}
	}
	if b.Rung() {
		t.Error("that rang a doorbell")
	}
}

// What was rung is taken once, in any order, however little room there is.
func TestBellsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		slots := rapid.SampledFrom([]int{1, 63, 64, 65, 4096, 4097, 10_000, MaxSlots}).Draw(rt, "slots")
		b, _ := newBells(t, slots)
		rung := map[uint32]bool{}
		dst := make([]uint32, rapid.IntRange(64, 200).Draw(rt, "room"))
		rt.Repeat(map[string]func(*rapid.T){
			"ring": func(rt *rapid.T) {
				s := rapid.IntRange(0, slots-1).Draw(rt, "slot")
				b.Ring(s)
				rung[uint32(s)] = true
			},
			"ring nobody's": func(rt *rapid.T) {
				b.Ring(rapid.SampledFrom([]int{-1, slots, 1 << 40}).Draw(rt, "slot"))
			},
			"drain": func(rt *rapid.T) {
				n := b.Drain(dst)
				if n == 0 && len(rung) != 0 {
					rt.Fatalf("nothing of %d taken", len(rung))
				}
				for _, s := range dst[:n] {
					if !rung[s] {
						rt.Fatalf("slot %d was not rung, or taken before", s)
					}
					delete(rung, s)
				}
			},
			"": func(rt *rapid.T) {
				if b.Rung() != (len(rung) != 0) {
					rt.Fatalf("rung: %v, with %d slots", b.Rung(), len(rung))
				}
			},
		})
	})
}

// With little room each slot comes to its turn, also when others ring on.
func TestBellsAreTakenInTurn(t *testing.T) {
	b, _ := newBells(t, 10_000)
	ringAll := func() {
		for s := range b.Slots() {
			b.Ring(s)
		}
	}
	taken := map[uint32]bool{}
	dst := make([]uint32, 64)
	for range (10_000 + 63) / 64 {
		ringAll()
		for _, s := range dst[:b.Drain(dst)] {
			taken[s] = true
		}
	}
	if len(taken) != b.Slots() {
		t.Errorf("%d of %d slots had their turn", len(taken), b.Slots())
	}
}

// Whatever a client writes, nothing but slots comes out, and there is an end.
func TestBellsGarbage(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, slots := range []int{1, 70, 5000, MaxSlots} {
		b, mem := newBells(t, slots)
		dst := make([]uint32, 64)
		for range 100 {
			for i := range mem {
				x, y := rnd.Uint32(), rnd.Uint32() // most bits are set
				mem[i] = byte(x | y)
			}
			for range slots/64 + 600 { // each takes at least a bit of the summary
				n := b.Drain(dst)
				if slices.ContainsFunc(dst[:n], func(s uint32) bool { return s >= uint32(slots) }) {
					t.Fatalf("%d slots: one of %v", slots, dst[:n])
				}
			}
			if b.Drain(dst) != 0 {
				t.Fatalf("%d slots: there is no end", slots)
			}
		}
	}
}

// Several goroutines publish and ring, and sleep and wake are decided by doorbells
// and state alone: nothing that was published stays unseen.
func TestBellsLoseNothing(t *testing.T) {
	const ringers, each = 4, 20_000
	b, _ := newBells(t, 5000)
	s, err := NewStates(1)
	if err != nil {
		t.Fatal(err)
	}
	slotOf := func(i int) int { return []int{3, 5, 70, 4999}[i] } // two share a leaf
	var published [ringers]atomic.Uint64
	wake := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for i := range ringers {
		wg.Go(func() {
			for n := range each {
				published[i].Store(uint64(n + 1))
				b.Ring(slotOf(i))
				if s.Asleep(0) {
					select {
					case wake <- struct{}{}:
					default:
					}
				}
				if n%64 == i {
					runtime.Gosched()
				}
			}
		})
	}
	var seen [ringers]uint64
	done := func() bool {
		return !slices.ContainsFunc(seen[:], func(n uint64) bool { return n != each })
	}
	dst, sleeps := make([]uint32, 64), 0
	patience := time.NewTimer(30 * time.Second)
	defer patience.Stop()
	for !done() {
		for _, slot := range dst[:b.Drain(dst)] {
			i := slices.Index([]uint32{3, 5, 70, 4999}, slot)
			seen[i] = published[i].Load()
		}
		s.Set(0, WorkerAsleep)
		if !b.Rung() && !done() {
			sleeps++
			select {
			case <-wake:
			case <-patience.C:
				t.Fatalf("seen %v of %d each: a ring was lost", seen, each)
			}
		}
		s.Set(0, WorkerAwake)
	}
	wg.Wait()
	t.Logf("%d sleeps", sleeps)
}

func TestBellsDoNotAllocate(t *testing.T) {
	b, _ := newBells(t, 5000)
	dst := make([]uint32, 64)
	if n := testing.AllocsPerRun(100, func() {
		b.Ring(4321)
		if !b.Rung() || b.Drain(dst) != 1 {
			t.Fatal("not taken")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestStates(t *testing.T) {
	if _, err := NewStates(MaxWorkers + 1); !errors.Is(err, ErrLayout) {
		t.Errorf("too many workers: %v", err)
	}
	if _, err := OpenStates(alignedBytes(255), 2); !errors.Is(err, ErrLayout) {
		t.Errorf("too little memory: %v", err)
	}
	mem := alignedBytes(256)
	s, err := OpenStates(mem, 2)
	if err != nil || s.Workers() != 2 {
		t.Fatal(err, s)
	}
	reader, err := OpenStates(mem, 2)
	if err != nil {
		t.Fatal(err)
	}
	s.Set(1, WorkerAsleep)
	if reader.Asleep(0) || !reader.Asleep(1) || mem[128] != 1 {
		t.Errorf("states %v, %v; byte %d", reader.Asleep(0), reader.Asleep(1), mem[128])
	}
	s.Set(1, WorkerAwake)
	if reader.Asleep(1) {
		t.Error("awake, and yet asleep")
	}
}
