package ring

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Layout says where in a mapping the parts of a ring are, in bytes, as the
// kernel tells through XDP_MMAP_OFFSETS.
type Layout struct {
	Producer, Consumer, Entries, Flags uint64
}

// Length returns how many bytes of the ring's file to map for size entries of
// type T.
func Length[T any](l Layout, size int) int {
	var t T
	return int(l.Entries) + size*int(unsafe.Sizeof(t))
}

// MapProducer returns the producing side of the ring of size entries in mem, a
// mapping of a ring of the kernel.
func MapProducer[T any](mem []byte, l Layout, size int) (*Producer[T], error) {
	w, entries, err := overlay[T](mem, l, size)
	if err != nil {
		return nil, err
	}
	return newProducer(w, entries), nil
}

// MapConsumer returns the consuming side of the ring of size entries in mem.
func MapConsumer[T any](mem []byte, l Layout, size int) (*Consumer[T], error) {
	w, entries, err := overlay[T](mem, l, size)
	if err != nil {
		return nil, err
	}
	return newConsumer(w, entries), nil
}

// overlay is where plain bytes become atomic words and typed entries: the
// kernel reads and writes them too, so they cannot be copied into Go values.
// Bounds and alignment are checked here, once.
func overlay[T any](mem []byte, l Layout, size int) (words, []T, error) {
	if err := CheckSize(size); err != nil {
		return words{}, nil, err
	}
	if uint64(len(mem)) < uint64(Length[T](l, size)) || l.Entries > uint64(len(mem)) {
		return words{}, nil, fmt.Errorf("%w: %d entries do not fit a mapping of %d bytes", ErrSize, size, len(mem))
	}
	var t T
	base := unsafe.Pointer(unsafe.SliceData(mem))
	if (uintptr(base)+uintptr(l.Entries))%unsafe.Alignof(t) != 0 {
		return words{}, nil, fmt.Errorf("%w: entries at offset %d are not aligned", ErrSize, l.Entries)
	}
	word := func(off uint64) (*atomic.Uint32, error) {
		if off > uint64(len(mem)) || off+4 > uint64(len(mem)) || (uintptr(base)+uintptr(off))%4 != 0 {
			return nil, fmt.Errorf("%w: index at offset %d of a mapping of %d bytes", ErrSize, off, len(mem))
		}
		return (*atomic.Uint32)(unsafe.Add(base, off)), nil
	}
	var w words
	var err error
	if w.prod, err = word(l.Producer); err != nil {
		return words{}, nil, err
	}
	if w.cons, err = word(l.Consumer); err != nil {
		return words{}, nil, err
	}
	if w.flags, err = word(l.Flags); err != nil {
		return words{}, nil, err
	}
	return w, unsafe.Slice((*T)(unsafe.Add(base, l.Entries)), size), nil
}
