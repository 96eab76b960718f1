package memory

import "encoding/binary"

// WriteFinal is Write for the last bytes of a message: a program that sees the
// last byte change sees all bytes that were written before, by this call and by
// earlier ones of the same goroutine.
//
// The aligned 8-byte word that holds the last byte is written last, by one
// atomic instruction. That instruction is the barrier: on amd64 stores become
// visible in program order (a string move or a streaming copy ends before a
// later locked instruction begins), on arm64 Go's atomic store and
// compare-and-swap are store-releases, which wait for all earlier stores. A
// plain copy would not do: it may write the end of a block before its middle.
//
// When the message ends inside a word, the bytes after it are rewritten with
// what they are, by compare-and-swap, so that a concurrent store to them is
// never lost; they lie on the same page as the last byte.
func (r *Region) WriteFinal(va uint64, src []byte) bool {
	if !r.holds(va, len(src)) {
		return false
	}
	if len(src) == 0 {
		return true
	}
	switch r.kind {
	case direct:
		writeFinal(r.bytes(va, len(src)), src)
		return true
	case revocable:
		if r.gone.Load() {
			return false
		}
		if !Guard(func() { writeFinal(r.bytes(va, len(src)), src) }) {
			r.fault()
			return false
		}
		return true
	default: // indirect: below
	}
	// No atomics here, but a system call per piece orders them.
	head := len(src) - finalBytes(va+r.shift, len(src))
	return (head == 0 || r.writeSlow(va, src[:head])) && r.writeSlow(va+uint64(head), src[head:])
}

// finalBytes is how many of the n bytes at address a lie in the aligned word of
// the last one.
func finalBytes(a uint64, n int) int {
	return min(n, int((a+uint64(n)-1)&7)+1)
}

// writeFinal copies src to dst, which has the same length, at least 1.
func writeFinal(dst, src []byte) {
	k := finalBytes(AddressOf(dst), len(dst))
	head := len(dst) - k
	copy(dst[:head], src[:head])
	word, first := wordOf(dst, head)
	if k == 8 {
		word.Store(binary.NativeEndian.Uint64(src[head:]))
		return
	}
	for {
		var b [8]byte
		old := word.Load()
		binary.NativeEndian.PutUint64(b[:], old)
		copy(b[first:], src[head:])
		if word.CompareAndSwap(old, binary.NativeEndian.Uint64(b[:])) {
			return
		}
	}
}
