package ibv

// SRQType is the kind of a shared receive queue (ibv_srq_type).
type SRQType uint8

// Kinds of shared receive queues.
const (
	SRQTypeBasic SRQType = 0
	SRQTypeXRC   SRQType = 1
)

var srqTypeNames = []string{SRQTypeBasic: "BASIC", SRQTypeXRC: "XRC"}

// String is the name of the kind: "XRC".
func (t SRQType) String() string { return enumString("SRQ_TYPE", int(t), srqTypeNames) }

// SRQAttrMask names the attributes of a shared receive queue that a call sets
// (ibv_srq_attr_mask).
type SRQAttrMask uint32

// Attributes of a shared receive queue.
const (
	SRQAttrMaxWR SRQAttrMask = 1 << 0
	SRQAttrLimit SRQAttrMask = 1 << 1
)

// SRQAttr are the attributes of a shared receive queue (ibv_srq_attr).
type SRQAttr struct {
	MaxWR  int // receive work requests posted, 1 to MaxQPWR
	MaxSGE int // entries of each, 1 to MaxSGE; fixed when the queue is made
	Limit  int // SRQ_LIMIT_REACHED is due when fewer are posted; 0: never
}
