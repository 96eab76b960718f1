package bpf

// unsafe turns the pages of a BPF map into words that are accessed atomically:
// the program reads them on other CPUs at the same time.

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

type word interface{ atomic.Uint32 | atomic.Uint64 }

// mapping is the memory of an mmapable array map as words of type T.
type mapping[T word] struct {
	words []T
	pages []byte
}

// mapWords maps the first count words of the map behind fd. The memory is the
// kernel's: it is page aligned and Go's collector does not know it.
func mapWords[T word](fd, count int) (mapping[T], error) {
	var zero T
	page := os.Getpagesize()
	size := (count*int(unsafe.Sizeof(zero)) + page - 1) / page * page
	pages, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return mapping[T]{}, fmt.Errorf("map %d bytes of a BPF map: %w", size, err)
	}
	return mapping[T]{words: unsafe.Slice((*T)(unsafe.Pointer(&pages[0])), count), pages: pages}, nil
}

// unmap ends the mapping; the words must not be used any more. It may be called twice.
func (m *mapping[T]) unmap() error {
	if m.pages == nil {
		return nil
	}
	err := unix.Munmap(m.pages)
	m.words, m.pages = nil, nil
	return err
}
