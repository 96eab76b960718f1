package integration_test

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// byteAt reads b[i] while a device writes it. Go has no atomic bytes: the aligned
// word around it is read, which never leaves b's page.
func byteAt(b []byte, i int) byte {
	p := unsafe.Pointer(&b[i])
	in := uintptr(p) & 3
	var word [4]byte
	binary.NativeEndian.PutUint32(word[:], atomic.LoadUint32((*uint32)(unsafe.Add(p, -int(in)))))
	return word[in]
}
