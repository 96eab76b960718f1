package perf

import (
	"sync/atomic"
	"unsafe"
)

// loadLast reads the last byte of b, which a peer's RDMA WRITE may change at any
// time. Go has no atomic load of a byte, so this loads the aligned word that
// contains it: b is part of a page-aligned buffer whose size is a multiple of 8,
// so the word lies inside the buffer.
func loadLast(b []byte) byte {
	p := unsafe.Pointer(&b[len(b)-1])
	odd := uintptr(p) & 3
	word := atomic.LoadUint32((*uint32)(unsafe.Add(p, -int(odd))))
	return (*[4]byte)(unsafe.Pointer(&word))[odd]
}
