package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
)

// Offsets of the ring header; see the package comment.
const (
	offElemSize = 0
	offMask     = 4
	offProducer = 128
	offConsumer = 256
	offArm      = 260
	headerSize  = 384

	// MaxEntries is the largest number of elements of a ring.
	MaxEntries = 1 << 24
	// MaxElemSize is the largest element in bytes.
	MaxElemSize = 1 << 16
)

// ErrLayout says that a block of memory does not hold a valid ring.
var ErrLayout = errors.New("queue: not a valid ring")

// Ring is a view of a ring's memory. It is shared by one Producer and one
// Consumer, which may live in different processes.
type Ring struct {
	producer, consumer, arm *atomic.Uint32

	elem, mask uint32
	data       []byte
}

// Size is the number of bytes that a ring of at least entries elements of elem
// bytes needs, and the number of elements it gets: entries rounded up to a
// power of two. elem must be a multiple of 8.
func Size(entries, elem int) (bytes, rounded int, err error) {
	if entries < 1 || entries > MaxEntries {
		return 0, 0, fmt.Errorf("%w: %d entries (1 to %d)", ErrLayout, entries, MaxEntries)
	}
	if elem < 8 || elem > MaxElemSize || elem%8 != 0 {
		return 0, 0, fmt.Errorf("%w: elements of %d bytes (a multiple of 8 up to %d)", ErrLayout, elem, MaxElemSize)
	}
	rounded = 1
	for rounded < entries {
		rounded *= 2
	}
	return headerSize + rounded*elem, rounded, nil
}

// New makes an empty ring on the Go heap.
func New(entries, elem int) (*Ring, error) {
	n, _, err := Size(entries, elem)
	if err != nil {
		return nil, err
	}
	return Format(alignedBytes(n), entries, elem)
}

// Format writes an empty ring into mem, which must be aligned to 8 bytes and
// at least as large as Size says.
func Format(mem []byte, entries, elem int) (*Ring, error) {
	n, rounded, err := Size(entries, elem)
	if err != nil {
		return nil, err
	}
	if len(mem) < n {
		return nil, fmt.Errorf("%w: %d bytes of memory, %d needed", ErrLayout, len(mem), n)
	}
	clear(mem[:headerSize])
	binary.LittleEndian.PutUint32(mem[offElemSize:], uint32(elem))
	binary.LittleEndian.PutUint32(mem[offMask:], uint32(rounded-1))
	return view(mem, uint32(elem), uint32(rounded-1))
}

// Open views the ring that mem holds and checks its header against the size of
// mem. The geometry is read once: later changes of the header have no effect.
func Open(mem []byte) (*Ring, error) {
	if len(mem) < headerSize {
		return nil, fmt.Errorf("%w: %d bytes of memory, the header has %d", ErrLayout, len(mem), headerSize)
	}
	elem := binary.LittleEndian.Uint32(mem[offElemSize:])
	mask := binary.LittleEndian.Uint32(mem[offMask:])
	if mask >= MaxEntries || mask&(mask+1) != 0 || elem < 8 || elem > MaxElemSize || elem%8 != 0 ||
		uint64(len(mem)) < headerSize+uint64(mask+1)*uint64(elem) {
		return nil, fmt.Errorf("%w: element size %d, mask %#x in %d bytes", ErrLayout, elem, mask, len(mem))
	}
	return view(mem, elem, mask)
}

func view(mem []byte, elem, mask uint32) (*Ring, error) {
	if !aligned(mem) {
		return nil, fmt.Errorf("%w: memory is not aligned to 8 bytes", ErrLayout)
	}
	return &Ring{
		producer: atomicAt(mem, offProducer),
		consumer: atomicAt(mem, offConsumer),
		arm:      atomicAt(mem, offArm),
		elem:     elem,
		mask:     mask,
		data:     mem[headerSize : headerSize+(int(mask)+1)*int(elem)],
	}, nil
}

// Entries is the number of elements.
func (r *Ring) Entries() int { return int(r.mask) + 1 }

// ElemSize is the size of an element in bytes.
func (r *Ring) ElemSize() int { return int(r.elem) }

// Empty reports whether nothing is in the ring, from any goroutine and without
// either end. It may be out of date when it returns.
func (r *Ring) Empty() bool { return r.producer.Load() == r.consumer.Load() }

// Arm is the consumer's word that says which elements wake it; see ArmNone.
func (r *Ring) Arm() *atomic.Uint32 { return r.arm }

// Values of the arm word of a completion queue.
const (
	ArmNone      = 0 // no event
	ArmNext      = 1 // the next completion raises one event
	ArmSolicited = 2 // the next solicited or failed completion raises one event
)

func (r *Ring) slot(i uint32) []byte {
	off := int(i&r.mask) * int(r.elem)
	return r.data[off : off+int(r.elem) : off+int(r.elem)]
}
