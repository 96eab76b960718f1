package memory

// keySeq generates the low byte of the keys of one slot. The values run through
// all 256 before one comes back, in an order that depends on the seed: a key
// that was deregistered stays wrong for the next 255 registrations in its slot.
// Eight bits are no secret; they catch mistakes, not attackers.
type keySeq struct{ value, step uint8 }

func newKeySeq(seed uint32) keySeq {
	// An odd step visits every value modulo 256.
	return keySeq{value: uint8(seed), step: uint8(seed>>8) | 1}
}

func (s *keySeq) next() uint8 {
	s.value += s.step
	return s.value
}
