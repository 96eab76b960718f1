package xsktest

import "unsafe"

// aligned returns size bytes of heap memory that begin on a multiple of align:
// make promises no alignment for bytes, and a UMEM begins on a page.
func aligned(size, align int) []byte {
	mem := make([]byte, size+align)
	off := -int(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) & (align - 1)
	return mem[off : off+size : off+size]
}
