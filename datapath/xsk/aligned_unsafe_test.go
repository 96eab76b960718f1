package xsk

import "unsafe"

// alignedBytes returns n bytes that begin on a multiple of 8, as a mapping
// does and make does not promise.
func alignedBytes(n int) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), n)
}
