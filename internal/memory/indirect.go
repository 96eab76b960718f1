package memory

// Indirect reaches memory that is not mapped here, by virtual address. The
// range was checked against the region. An error means that the memory has gone
// away: the region becomes invalid.
type Indirect interface {
	// ReadAt fills dst with the bytes at va.
	ReadAt(dst []byte, va uint64) error
	// WriteAt writes src to va.
	WriteAt(src []byte, va uint64) error
}
