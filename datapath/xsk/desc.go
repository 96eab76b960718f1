package xsk

// Desc describes one buffer of a frame. It has the layout of struct xdp_desc.
type Desc struct {
	// Addr is where the bytes begin, in bytes from the start of the UMEM. In
	// an unaligned UMEM the kernel puts the offset within the chunk into the
	// upper 16 bits; UMEM.Frame and Pool.Put understand both forms.
	Addr uint64
	// Len is the number of bytes.
	Len uint32
	// Options holds Continued and TxMetadata.
	Options uint32
}

const (
	// Continued (XDP_PKT_CONTD) in Desc.Options says that the frame goes on in
	// the next descriptor.
	Continued = 1 << 0
	// TxMetadata (XDP_TX_METADATA) in Desc.Options says that the
	// UMEMConfig.TxMetadataLen bytes before Addr hold transmit metadata.
	TxMetadata = 1 << 1
)

const (
	offsetShift = 48
	addrMask    = 1<<offsetShift - 1
)

// wholeFrames returns how many of descs make up complete frames.
func wholeFrames(descs []Desc) int {
	n := len(descs)
	for n > 0 && descs[n-1].Options&Continued != 0 {
		n--
	}
	return n
}

// tally counts the frames and bytes of descs, which are whole frames.
func tally(descs []Desc) (frames, bytes uint64) {
	for i := range descs {
		bytes += uint64(descs[i].Len)
		frames += uint64(^descs[i].Options & Continued)
	}
	return frames, bytes
}
