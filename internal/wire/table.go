package wire

import "fmt"

// Header sizes in bytes (IBTA vol. 1, chapter 9; annex A17 for RoCEv2).
const (
	BTHLen          = 12
	RETHLen         = 16
	AtomicETHLen    = 28
	AtomicAckETHLen = 8
	AETHLen         = 4
	ImmDtLen        = 4
	IETHLen         = 4
	DETHLen         = 8
	FETHLen         = 4
	XRCETHLen       = 4
	CNPLen          = 16 // reserved bytes after the BTH of a CNP
	ICRCLen         = 4

	// MaxHeaderLen is the largest OpInfo.HeaderLen: BTH, XRCETH, AtomicETH.
	MaxHeaderLen = BTHLen + XRCETHLen + AtomicETHLen
)

// Info is the opcode table's entry for op, nil when op is reserved or belongs
// to a transport that RoCE does not use. The entry is shared and read-only.
func (op Opcode) Info() *OpInfo { return opTable[op] }

// String is the opcode's name, "RC SEND_FIRST", or its number.
func (op Opcode) String() string {
	if info := op.Info(); info != nil {
		return info.Name
	}
	return fmt.Sprintf("opcode %#02x", uint8(op))
}

// opRow is one operation: the transports that have it and what follows from it.
type opRow struct {
	op    Opcode
	name  string
	on    transports
	hdrs  Hdr
	pos   Position
	flags opFlags
}

type transports uint8

const (
	onRC transports = 1 << iota
	onUC
	onXRC

	onAll      = onRC | onUC | onXRC
	onRCAndXRC = onRC | onXRC
)

type opFlags uint8

const (
	opPayload opFlags = 1 << iota
	opResponse
	opSend
	opWrite
	opConsumes
	opCompletes
)

// The operations of the connected transports (IBTA vol. 1, 9.2.1 and, for
// FLUSH and ATOMIC WRITE, annex A19).
var opRows = [...]opRow{
	{SendFirst, "SEND_FIRST", onAll, 0, First, opPayload | opSend | opConsumes},
	{SendMiddle, "SEND_MIDDLE", onAll, 0, Middle, opPayload | opSend},
	{SendLast, "SEND_LAST", onAll, 0, Last, opPayload | opSend | opCompletes},
	{SendLastImm, "SEND_LAST_WITH_IMMEDIATE", onAll, HasImmDt, Last, opPayload | opSend | opCompletes},
	{SendOnly, "SEND_ONLY", onAll, 0, Only, opPayload | opSend | opConsumes | opCompletes},
	{SendOnlyImm, "SEND_ONLY_WITH_IMMEDIATE", onAll, HasImmDt, Only, opPayload | opSend | opConsumes | opCompletes},
	{WriteFirst, "RDMA_WRITE_FIRST", onAll, HasRETH, First, opPayload | opWrite},
	{WriteMiddle, "RDMA_WRITE_MIDDLE", onAll, 0, Middle, opPayload | opWrite},
	{WriteLast, "RDMA_WRITE_LAST", onAll, 0, Last, opPayload | opWrite},
	{WriteLastImm, "RDMA_WRITE_LAST_WITH_IMMEDIATE", onAll, HasImmDt, Last, opPayload | opWrite | opConsumes | opCompletes},
	{WriteOnly, "RDMA_WRITE_ONLY", onAll, HasRETH, Only, opPayload | opWrite},
	{WriteOnlyImm, "RDMA_WRITE_ONLY_WITH_IMMEDIATE", onAll, HasRETH | HasImmDt, Only, opPayload | opWrite | opConsumes | opCompletes},
	{ReadRequest, "RDMA_READ_REQUEST", onRCAndXRC, HasRETH, Only, 0},
	{ReadRespFirst, "RDMA_READ_RESPONSE_FIRST", onRCAndXRC, HasAETH, First, opPayload | opResponse},
	{ReadRespMid, "RDMA_READ_RESPONSE_MIDDLE", onRCAndXRC, 0, Middle, opPayload | opResponse},
	{ReadRespLast, "RDMA_READ_RESPONSE_LAST", onRCAndXRC, HasAETH, Last, opPayload | opResponse},
	{ReadRespOnly, "RDMA_READ_RESPONSE_ONLY", onRCAndXRC, HasAETH, Only, opPayload | opResponse},
	{Acknowledge, "ACKNOWLEDGE", onRCAndXRC, HasAETH, Only, opResponse},
	{AtomicAck, "ATOMIC_ACKNOWLEDGE", onRCAndXRC, HasAETH | HasAtomicAckETH, Only, opResponse},
	{CompareSwap, "COMPARE_SWAP", onRCAndXRC, HasAtomicETH, Only, 0},
	{FetchAdd, "FETCH_ADD", onRCAndXRC, HasAtomicETH, Only, 0},
	{SendLastInv, "SEND_LAST_WITH_INVALIDATE", onRCAndXRC, HasIETH, Last, opPayload | opSend | opCompletes},
	{SendOnlyInv, "SEND_ONLY_WITH_INVALIDATE", onRCAndXRC, HasIETH, Only, opPayload | opSend | opConsumes | opCompletes},
	{Flush, "FLUSH", onRC, HasFETH | HasRETH, Only, 0},
	{AtomicWrite, "ATOMIC_WRITE", onRC, HasRETH, Only, opPayload},
}

// Header sizes by bit of Hdr, which is their order on the wire.
var hdrLens = [...]int{XRCETHLen, DETHLen, FETHLen, RETHLen, AtomicETHLen, AETHLen, AtomicAckETHLen, ImmDtLen, IETHLen, CNPLen}

var opTable = buildOpTable()

func buildOpTable() (t [256]*OpInfo) {
	for i := range opRows {
		r := &opRows[i]
		if r.on&onRC != 0 {
			t[RC|r.op] = r.info("RC ", RC, 0)
		}
		if r.on&onUC != 0 {
			t[UC|r.op] = r.info("UC ", UC, 0)
		}
		if r.on&onXRC != 0 {
			// Only what travels towards the shared receive queue names it.
			extra := HasXRCETH
			if r.flags&opResponse != 0 {
				extra = 0
			}
			t[XRC|r.op] = r.info("XRC ", XRC, extra)
		}
		if r.op == SendOnly || r.op == SendOnlyImm {
			t[UD|r.op] = r.info("UD ", UD, HasDETH)
		}
	}
	cnp := opRow{name: "CNP", hdrs: HasCNP, pos: Only}
	t[CNP] = cnp.info("", CNP, 0)
	return t
}

func (r *opRow) info(prefix string, transport Opcode, extra Hdr) *OpInfo {
	has := func(f opFlags) bool { return r.flags&f != 0 }
	in := &OpInfo{
		Name: prefix + r.name, Opcode: transport | r.op, Headers: r.hdrs | extra, Pos: r.pos,
		Payload: has(opPayload), Response: has(opResponse), Send: has(opSend), Write: has(opWrite),
		Consumes: has(opConsumes), Completes: has(opCompletes),
	}
	// The nil entry is the CNP's reserved bytes, which have no fields.
	offsets := [...]*int{&in.XRCETH, &in.DETH, &in.FETH, &in.RETH, &in.AtomicETH, &in.AETH, &in.AtomicAckETH, &in.ImmDt, &in.IETH, nil}
	off := BTHLen
	for bit, size := range hdrLens {
		if in.Headers&(1<<bit) == 0 {
			continue
		}
		if offsets[bit] != nil {
			*offsets[bit] = off
		}
		off += size
	}
	in.HeaderLen = off
	return in
}
