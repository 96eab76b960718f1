package memory

import "sync/atomic"

// The 64-bit operations work on host-order words of memory that is mapped here
// with the CPU's own atomics, so they are atomic for the program's threads as well
// as for other queue pairs. ok is false, and nothing is touched, when va or the
// memory's address is not a multiple of 8, when the word is not inside the region,
// when the region is indirect, or when its memory has gone away.

// CompareSwap replaces the word at va by swap if it equals cmp, and returns what
// it was.
func (r *Region) CompareSwap(va, cmp, swap uint64) (orig uint64, ok bool) {
	w := r.word(va)
	if w == nil {
		return 0, false
	}
	if r.kind != direct {
		ok = r.guarded(func() { orig = compareSwap(w, cmp, swap) })
		return orig, ok
	}
	return compareSwap(w, cmp, swap), true
}

func compareSwap(w *atomic.Uint64, cmp, swap uint64) (orig uint64) {
	for {
		orig = w.Load()
		if orig != cmp || w.CompareAndSwap(cmp, swap) {
			return orig
		}
	}
}

// FetchAdd adds to the word at va, modulo 2^64, and returns what it was.
func (r *Region) FetchAdd(va, add uint64) (orig uint64, ok bool) {
	w := r.word(va)
	if w == nil {
		return 0, false
	}
	if r.kind != direct {
		ok = r.guarded(func() { orig = w.Add(add) - add })
		return orig, ok
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
	if r.kind != direct {
		return r.guarded(func() { w.Store(v) })
	}
	w.Store(v)
	return true
}

// guarded runs f, which touches memory of the region that may be missing.
func (r *Region) guarded(f func()) bool {
	if Guard(f) {
		return true
	}
	r.fault()
	return false
}

// Atomic reports whether the 64-bit operations can work at va.
func (r *Region) Atomic(va uint64) bool { return r.word(va) != nil }

func (r *Region) word(va uint64) *atomic.Uint64 {
	if r.kind == indirect || va&7 != 0 || !r.covers(va, 8) || r.gone.Load() {
		return nil
	}
	b := r.bytes(va, 8)
	if AddressOf(b)&7 != 0 {
		return nil
	}
	w, _ := wordOf(b, 0)
	return w
}
