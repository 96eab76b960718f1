package wire

// bit is 1 for true; the compiler makes it a move without a branch.
func bit(v bool) uint32 {
	var b uint32
	if v {
		b = 1
	}
	return b
}

func setBit(b *byte, mask byte, v bool) {
	*b &^= mask
	if v {
		*b |= mask
	}
}

func get24(b *[3]byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }

func put24(b *[3]byte, v uint32) { b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v) }
