package wire

// Opcode is the first byte of the BTH: transport in bits 7 to 5, operation in
// bits 4 to 0 (IBTA vol. 1, 9.2.1).
type Opcode uint8

// Transport prefixes of an opcode.
const (
	RC  Opcode = 0x00
	UC  Opcode = 0x20
	UD  Opcode = 0x60
	CNP Opcode = 0x81
	XRC Opcode = 0xA0
)

// Operations; an opcode is a transport prefix plus one of these.
const (
	SendFirst     Opcode = 0x00
	SendMiddle    Opcode = 0x01
	SendLast      Opcode = 0x02
	SendLastImm   Opcode = 0x03
	SendOnly      Opcode = 0x04
	SendOnlyImm   Opcode = 0x05
	WriteFirst    Opcode = 0x06
	WriteMiddle   Opcode = 0x07
	WriteLast     Opcode = 0x08
	WriteLastImm  Opcode = 0x09
	WriteOnly     Opcode = 0x0A
	WriteOnlyImm  Opcode = 0x0B
	ReadRequest   Opcode = 0x0C
	ReadRespFirst Opcode = 0x0D
	ReadRespMid   Opcode = 0x0E
	ReadRespLast  Opcode = 0x0F
	ReadRespOnly  Opcode = 0x10
	Acknowledge   Opcode = 0x11
	AtomicAck     Opcode = 0x12
	CompareSwap   Opcode = 0x13
	FetchAdd      Opcode = 0x14
	SendLastInv   Opcode = 0x16
	SendOnlyInv   Opcode = 0x17
	Flush         Opcode = 0x1C
	AtomicWrite   Opcode = 0x1D
)

// Transport is the prefix of op: RC, UC, UD, XRC, or another value for which
// Info is nil.
func (op Opcode) Transport() Opcode { return op & 0xE0 }

// Operation is op without its transport prefix.
func (op Opcode) Operation() Opcode { return op & 0x1F }

// Position of a packet in its message.
type Position uint8

// Positions. An ONLY packet is both first and last.
const (
	First  Position = 1 << 0
	Last   Position = 1 << 1
	Middle Position = 0
	Only            = First | Last
)

// Hdr is a set of extension headers.
type Hdr uint16

// Extension headers in wire order for every opcode.
const (
	HasXRCETH Hdr = 1 << iota
	HasDETH
	HasFETH
	HasRETH
	HasAtomicETH
	HasAETH
	HasAtomicAckETH
	HasImmDt
	HasIETH
	HasCNP // 16 reserved bytes
)

// OpInfo is what the opcode table says about one opcode.
type OpInfo struct {
	Name      string // "RC SEND_FIRST": the specification's spelling
	Opcode    Opcode
	HeaderLen int // bytes from the BTH's start to the payload: 12 to 44
	Headers   Hdr
	Pos       Position
	Payload   bool // may carry payload
	Response  bool // goes to the requester half (0x0D to 0x12)
	Send      bool // SEND of any kind
	Write     bool // RDMA WRITE of any kind
	Consumes  bool // takes a receive work request (as its first or as its immediate packet)
	Completes bool // completes a receive work request

	// Offsets from the BTH's start; 0 when the header is absent.
	RETH, AtomicETH, AETH, AtomicAckETH, ImmDt, IETH, DETH, FETH, XRCETH int
}
