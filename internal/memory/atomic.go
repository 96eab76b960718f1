package memory

import "sync/atomic"

// The 64-bit operations work on host-order words of direct regions with the
// CPU's own atomics, so they are atomic for the program's threads as well as for
// other queue pairs. ok is false, and nothing is touched, when va or the
// memory's address is not a multiple of 8, when the word is not inside the
// region, or when the region is not direct.

// CompareSwap replaces the word at va by swap if it equals cmp, and returns what
// it was.
func (r *Region) CompareSwap(va, cmp, swap uint64) (orig uint64, ok bool) {
	w := r.word(va)
	if w == nil {
		return 0, false
	}
	for {
		orig = w.Load()
		if orig != cmp || w.CompareAndSwap(cmp, swap) {
			return orig, true
		}
	}
}

// FetchAdd adds to the word at va, modulo 2^64, and returns what it was.
func (r *Region) FetchAdd(va, add uint64) (orig uint64, ok bool) {
	w := r.word(va)
	if w == nil {
		return 0, false
	}
	return w.Add(add) - add, true
}

// StoreWord replaces the word at va by v, after all earlier writes of the same
// goroutine. v is the host-order number: payload is read with
// [binary.NativeEndian].
func (r *Region) StoreWord(va, v uint64) bool {
	w := r.word(va)
	if w == nil {
		return false
	}
	w.Store(v)
	return true
}

// Atomic reports whether the 64-bit operations can work at va.
func (r *Region) Atomic(va uint64) bool { return r.word(va) != nil }

func (r *Region) word(va uint64) *atomic.Uint64 {
	if r.kind != direct || va&7 != 0 || !r.covers(va, 8) {
		return nil
	}
	b := r.bytes(va, 8)
	if AddressOf(b)&7 != 0 {
		return nil
	}
	w, _ := wordOf(b, 0)
	return w
}
