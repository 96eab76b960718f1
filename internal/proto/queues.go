package proto

// CreateCQ asks for a completion queue. The stream socket of its events comes with
// the reply: it is readable when one was raised, and read until it is empty.
type CreateCQ struct {
	Entries uint32
	Pad     uint32
}

// CQReply says where the ring of a completion queue is.
type CQReply struct {
	Handle uint64
	Ring   Span
}

// ResizeCQ moves the queue to another ring, which the reply (CQReply) names. The
// client takes nothing from the old one between request and reply.
type ResizeCQ struct {
	Handle  uint64
	Entries uint32
	Pad     uint32
}

// ModifyCQ moderates events.
type ModifyCQ struct {
	Handle   uint64
	PeriodNS uint64
	Count    uint32
	Pad      uint32
}

// CQAttr is verbs.CQAttr.
type CQAttr struct {
	PeriodNS   uint64
	Entries    uint32
	Count      uint32
	Overflowed uint8
	Pad        [7]uint8
}

// SRQAttr are the attributes of a shared receive queue (ibv_srq_attr).
type SRQAttr struct {
	MaxWR  uint32
	MaxSGE uint32
	Limit  uint32
	Pad    uint32
}

// CreateSRQ asks for a shared receive queue.
type CreateSRQ struct {
	CQ   uint64 // handle of one of an XRC domain, else 0
	PD   uint32
	XRCD uint32 // 0: of none
	Attr SRQAttr
}

// SRQReply says where the ring of a shared receive queue is.
type SRQReply struct {
	Handle uint64
	Ring   Span
	Num    uint32 // its number in its XRC domain
	Pad    uint32
}

// ModifySRQ sets what Mask names. With MAX_WR the client posts nothing between
// request and reply (SRQReply), which names another ring.
type ModifySRQ struct {
	Handle uint64
	Attr   SRQAttr
	Mask   uint32
	Pad    uint32
}

// OpenXRCD opens an XRC domain.
type OpenXRCD struct {
	Name      [256]byte // empty: a new one
	Create    uint8
	Exclusive uint8
	Pad       [6]uint8
}

// XRCD names an XRC domain: reply of OpenXRCD, request of CloseXRCD.
type XRCD struct {
	XRCD uint32
	Pad  uint32
}
