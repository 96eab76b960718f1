package proto

// AllocBuffer asks for memory that program and daemon share.
type AllocBuffer struct {
	Size uint64 // bytes
}

// AllocBufferReply says where it is; FreeBuffer gives its handle back.
type AllocBufferReply struct {
	Handle uint64
	Span   Span
}

// Kinds of memory that a region is made of.
const (
	MemoryShared   uint8 = 0 // of a buffers segment
	MemoryIndirect uint8 = 1 // of the process whose memory OpSetMemory has handed over
	MemoryImplicit uint8 = 2 // all of it
)

// RegMR registers a region. Addr and Length are the client's; with MemoryShared
// they lie at Offset of Segment.
type RegMR struct {
	Addr    uint64
	Length  uint64
	Offset  uint64
	Segment uint32
	PD      uint32
	Access  uint32
	Memory  uint8
	Pad     [3]uint8
}

// MRReply is a region.
type MRReply struct {
	Handle uint64
	Addr   uint64
	LKey   uint32
	RKey   uint32
}

// ReregMR changes a region; Flags say which of New count. An error changes nothing.
type ReregMR struct {
	Handle uint64
	New    RegMR
	Flags  uint32 // ibv_rereg_mr_flags
	Pad    uint32
}

// SGE is a scatter/gather entry.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// MaxAdvise is how many entries an AdviseMR has at most.
const MaxAdvise = 64

// AdviseMR has pages of regions made ready.
type AdviseMR struct {
	PD     uint32
	Count  uint32
	Advice uint32
	Pad    uint32
	SGE    [MaxAdvise]SGE
}

// PD names a protection domain: reply of AllocPD, request of DeallocPD.
type PD struct {
	PD  uint32
	Pad uint32
}

// AllocMW asks for a memory window.
type AllocMW struct {
	PD   uint32
	Type uint32
}

// MWReply is a memory window.
type MWReply struct {
	Handle uint64
	RKey   uint32
	Pad    uint32
}

// AllocFastMR asks for a region without memory, for work requests to fill.
type AllocFastMR struct {
	Limit uint64 // bytes
	PD    uint32
	Pad   uint32
}
