package memory

import (
	"sync/atomic"
	"unsafe"
)

// Addresses of bytes and 64-bit words inside byte slices have no safe form.

// AddressOf is the address of the first byte of b: the virtual address of a
// region made of it.
func AddressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// wordOf is the aligned 8-byte word that holds b[i], i < len(b), and the index
// in it of that byte. The word may begin before b or end after it, never on
// another page and, on the Go heap, never in another object: objects of 8 bytes
// and more are aligned to 8.
func wordOf(b []byte, i int) (w *atomic.Uint64, first int) {
	p := unsafe.Pointer(&b[i])
	first = int(uintptr(p) & 7)
	return (*atomic.Uint64)(unsafe.Add(p, -first)), first
}
