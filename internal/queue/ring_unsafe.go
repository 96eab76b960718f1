package queue

import (
	"sync/atomic"
	"unsafe"
)

// The indices of a ring, doorbells and states live in memory that another process
// may map, so they are reached as atomic words inside a byte slice. Whoever views
// the memory has checked length and alignment before.

func atomicAt(mem []byte, off int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&mem[off]))
}

func wideAt(mem []byte, off int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&mem[off]))
}

func aligned(mem []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%8 == 0
}

// alignedBytes allocates n bytes that start at a cache line.
func alignedBytes(n int) []byte {
	const line = 128
	b := make([]byte, n+line)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % line)
	return b[skip : skip+n : skip+n]
}
