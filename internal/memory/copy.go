package memory

// Read fills dst with the bytes at va. It is false, with dst in any state, when
// they are not all inside the region or their memory has gone away.
func (r *Region) Read(va uint64, dst []byte) bool {
	if !r.holds(va, len(dst)) {
		return false
	}
	if r.kind == direct {
		copy(dst, r.bytes(va, len(dst)))
		return true
	}
	return r.readSlow(va, dst)
}

func (r *Region) readSlow(va uint64, dst []byte) bool {
	if r.gone.Load() {
		return false
	}
	var ok bool
	if r.kind == revocable {
		ok = Guard(func() { copy(dst, r.bytes(va, len(dst))) })
	} else {
		ok = r.ind.ReadAt(dst, va+r.shift) == nil
	}
	if !ok {
		r.fault()
	}
	return ok
}

// Write copies src to va; in which order the bytes become visible is not
// defined. It is false when they are not all inside the region, then nothing is
// written, or when the memory has gone away.
func (r *Region) Write(va uint64, src []byte) bool {
	if !r.holds(va, len(src)) {
		return false
	}
	if r.kind == direct {
		copy(r.bytes(va, len(src)), src)
		return true
	}
	return r.writeSlow(va, src)
}

func (r *Region) writeSlow(va uint64, src []byte) bool {
	if r.gone.Load() {
		return false
	}
	var ok bool
	if r.kind == revocable {
		ok = Guard(func() { copy(r.bytes(va, len(src)), src) })
	} else {
		ok = r.ind.WriteAt(src, va+r.shift) == nil
	}
	if !ok {
		r.fault()
	}
	return ok
}
