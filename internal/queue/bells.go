package queue

import (
	"fmt"
	"math/bits"
	"sync/atomic"
)

// Offsets of the memory of doorbells.
const (
	offCPU    = 64
	offLeaves = 128
	leafBits  = 64 // slots of a leaf word, and leaf words of a summary word
	summaries = 8  // words, one cache line

	// MaxSlots is the largest number of doorbells of one piece of memory.
	MaxSlots = summaries * leafBits * leafBits
)

// Bells are the doorbells of the queues that a client has with one worker, a bit
// each, in memory that both share:
//
//	offset   0  8 summary words, u64: a bit for each leaf word that may have a bit set
//	offset  64  u32: where the client was when it last polled, as number of the CPU + 1
//	offset 128  leaf words, u64: a bit for each slot
//
// The client publishes its index, sets the leaf bit and then the summary bit. The
// worker takes the summary bit away and then the leaf bits: whatever the client does
// in between, either its bits are taken, after which the worker looks at the queue, or
// a summary bit is left for the next time. Nothing is believed of what a client
// writes here: a wrong bit costs one look at a queue of its own.
//
// Nobody learns of a ring by itself: see States.
type Bells struct {
	summary [summaries]*atomic.Uint64
	leaves  []*atomic.Uint64
	cpu     *atomic.Uint32
	slots   int
	words   int // summary words in use
	next    int // leaf word at which the next Drain begins; for the worker alone
}

// BellsSize is the number of bytes that doorbells for slots queues need, 1 to
// MaxSlots.
func BellsSize(slots int) (int, error) {
	if slots < 1 || slots > MaxSlots {
		return 0, fmt.Errorf("%w: %d doorbells (1 to %d)", ErrLayout, slots, MaxSlots)
	}
	return offLeaves + leavesOf(slots)*8, nil
}

func leavesOf(slots int) int { return (slots + leafBits - 1) / leafBits }

// NewBells makes doorbells on the Go heap.
func NewBells(slots int) (*Bells, error) {
	n, err := BellsSize(slots)
	if err != nil {
		return nil, err
	}
	return OpenBells(alignedBytes(n), slots)
}

// OpenBells views the doorbells in mem, which must be aligned to 8 bytes, at least
// as large as BellsSize says, and zero when it is new.
func OpenBells(mem []byte, slots int) (*Bells, error) {
	n, err := BellsSize(slots)
	switch {
	case err != nil:
		return nil, err
	case len(mem) < n:
		return nil, fmt.Errorf("%w: %d bytes of memory for %d doorbells, %d needed", ErrLayout, len(mem), slots, n)
	case !aligned(mem):
		return nil, fmt.Errorf("%w: memory is not aligned to 8 bytes", ErrLayout)
	}
	b := &Bells{leaves: make([]*atomic.Uint64, leavesOf(slots)), cpu: atomicAt(mem, offCPU), slots: slots}
	b.words = (len(b.leaves) + leafBits - 1) / leafBits
	for i := range b.summary {
		b.summary[i] = wideAt(mem, 8*i)
	}
	for i := range b.leaves {
		b.leaves[i] = wideAt(mem, offLeaves+8*i)
	}
	return b, nil
}

// SetCPU is for the client: it says on which CPU it polls, so that the worker can use
// another.
func (b *Bells) SetCPU(cpu int) {
	if n := uint32(cpu) + 1; b.cpu.Load() != n {
		b.cpu.Store(n)
	}
}

// CPU is what the client last said of that, -1 if nothing. It may be any number.
func (b *Bells) CPU() int { return int(b.cpu.Load()) - 1 }

// Slots is the number of doorbells.
func (b *Bells) Slots() int { return b.slots }

// Ring rings the doorbell of slot, one of Slots, after something was published. It
// may be called from any goroutine.
func (b *Bells) Ring(slot int) {
	if uint(slot) >= uint(b.slots) {
		return
	}
	leaf := slot / leafBits
	set(b.leaves[leaf], slot%leafBits)
	set(b.summary[leaf/leafBits], leaf%leafBits)
}

// set sets a bit. One that is set already is a ring that nobody has taken: a look is
// cheaper than another write, and orders just as well behind what was published.
func set(w *atomic.Uint64, bit int) {
	if m := uint64(1) << bit; w.Load()&m == 0 {
		w.Or(m)
	}
}

// Rung reports whether a doorbell may have been rung and not taken.
func (b *Bells) Rung() bool {
	for _, w := range b.summary[:b.words] {
		if w.Load() != 0 {
			return true
		}
	}
	return false
}

// Drain takes doorbells that were rung, in turn from where the last call ended, and
// returns how many slots it has put into dst, which has room for at least 64. Those
// that might not fit stay. It is used by one goroutine at a time.
func (b *Bells) Drain(dst []uint32) (n int) {
	start := b.next
	for i := 0; i <= b.words; i++ { // the word of start comes first, and its beginning last
		word := (start/leafBits + i) % b.words
		rung := b.summary[word].Load()
		switch low := uint64(1)<<(start%leafBits) - 1; i {
		case 0:
			rung &^= low
		case b.words:
			rung &= low
		}
		for ; rung != 0; rung &= rung - 1 {
			leaf := word*leafBits + bits.TrailingZeros64(rung)
			if len(dst)-n < leafBits {
				b.next = leaf
				return n
			}
			n += b.take(leaf, dst[n:])
		}
	}
	return n
}

// take empties a leaf word into dst.
func (b *Bells) take(leaf int, dst []uint32) (n int) {
	b.summary[leaf/leafBits].And(^(uint64(1) << (leaf % leafBits)))
	if leaf >= len(b.leaves) {
		return 0 // no client of ours has set that bit
	}
	for rung := b.leaves[leaf].Swap(0); rung != 0; rung &= rung - 1 {
		slot := leaf*leafBits + bits.TrailingZeros64(rung)
		if slot >= b.slots {
			break
		}
		dst[n] = uint32(slot)
		n++
	}
	return n
}
