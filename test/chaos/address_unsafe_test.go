package chaos_test

import "unsafe"

// addressOf is where b is. No pointer is made of it again: what is written there goes
// through /proc/self/mem.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
