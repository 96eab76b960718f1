package verbs

import "unsafe"

// Buffers are known by the address of their first byte: a slice has no other
// identity, and work requests name memory by addresses. The pointers are compared
// or become numbers, and are never followed.

func startOf(b []byte) *byte { return unsafe.SliceData(b) }

// addressOf is the address of the first byte of b, for who keeps b where it is.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func overlap(a, b []byte) bool {
	a0, b0 := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return a0 < b0+uintptr(len(b)) && b0 < a0+uintptr(len(a))
}
