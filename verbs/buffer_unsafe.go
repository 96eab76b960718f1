package verbs

import "unsafe"

// Buffers are known by the address of their first byte: a slice has no other
// identity. The pointers are only compared, never followed.

func startOf(b []byte) *byte { return unsafe.SliceData(b) }

func overlap(a, b []byte) bool {
	a0, b0 := uintptr(unsafe.Pointer(unsafe.SliceData(a))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return a0 < b0+uintptr(len(b)) && b0 < a0+uintptr(len(a))
}
