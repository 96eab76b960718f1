package proto

// Name is the size of a device's name.
const Name = 32

// Hello is the first message of a client.
type Hello struct {
	Magic      uint32 // Magic
	MinVersion uint32
	MaxVersion uint32
	Pad        uint32
}

// HelloReply says which version is spoken from now on.
type HelloReply struct {
	Version uint32
	Devices uint32 // that this client may open
	Daemon  [32]byte
}

// Page asks for entries of a list, from an index on.
type Page struct {
	First uint32
	Pad   uint32
}

// DeviceEntry is a device in a list.
type DeviceEntry struct {
	Name     [Name]byte
	NodeGUID uint64
	NetNS    uint64 // of the network namespace in which IfIndex counts, SO_NETNS_COOKIE
	IfIndex  uint32
	State    uint32 // of the port, ibv_port_state
}

// DevicesReply is a part of the list of devices.
type DevicesReply struct {
	Total uint32
	Count uint32 // of Entries that are used
	Entry [32]DeviceEntry
}

// Open opens a device.
type Open struct {
	Name [Name]byte
}

// OpenReply comes with 3+Workers descriptors: the socket of asynchronous events, the
// page of the workers' states (read-only), the doorbells, and for each worker the
// eventfd that wakes it. Worker i's doorbells begin at i*BellStride of their file, its
// state is the 32-bit word at i*StateStride of the page.
type OpenReply struct {
	Workers     uint32
	BellStride  uint32
	StateStride uint32
	BellSlots   uint32 // queue pairs of this client that a worker can have
	ClientID    uint64 // as the daemon's tools show it
}

// Span is a piece of a segment.
type Span struct {
	Segment uint32
	Pad     uint32
	Offset  uint64
	Size    uint64
}

// MapSegment asks for a segment's descriptor, which comes with the reply.
type MapSegment struct {
	Segment uint32
	Pad     uint32
}

// MapSegmentReply is its size.
type MapSegmentReply struct {
	Size uint64
}

// Cancel ends the request with number Seq, if it still waits. That is answered with
// StatusCancelled and has then done nothing; what was done by then is answered as ever.
// It has no effect of its own otherwise.
type Cancel struct {
	Seq uint32
	Pad uint32
}

// Handle names an object of the client; which kind, the request says.
type Handle struct {
	Handle uint64
}
