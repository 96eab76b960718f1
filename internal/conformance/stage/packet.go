package stage

import (
	"fmt"
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Packet describes one packet: one that the peer sends, or one that is expected
// of the queue pair. What is not said has the value that it must have: see
// Stage.expected and Stage.arriving.
type Packet struct {
	op  wire.Opcode // without transport prefix
	psn int         // from SQPSN or RQPSN

	se, ackReq bool
	syn        wire.Syndrome
	orig       uint64
	off        int // RETH or AtomicETH: offset in the remote memory
	total      int // RETH: length
	n          int // payload bytes
	msg        *Msg

	set    what // which of the fields below, or above, were said
	data   []byte
	msn    uint32
	credit uint8
	va     uint64
	rkey   uint32
	imm    uint32
	qkey   uint32
	srcQP  uint32
	pad    uint8
	pkey   uint16
	destQP uint32
	from   ibv.GID
	to     ibv.GID
	raw    wire.Opcode
	bth    func(*wire.BTH)
	frame  func([]byte)
	tag    []byte
}

// what is a set of fields.
type what uint32

const (
	setLen what = 1 << iota
	setRange
	setData
	setMSN
	setCredit
	setVA
	setKey
	setImm
	setQKey
	setSrcQP
	setPad
	setPKey
	setDest
	setFrom
	setTo
	setRaw
)

func (p *Packet) has(w what) bool { return p.set&w != 0 }

// info is the opcode's table entry on a transport service.
func (p *Packet) info(service wire.Opcode) *wire.OpInfo { return (service | p.op).Info() }

// Position is where in its message the packet stands.
func (p Packet) Position(service wire.Opcode) wire.Position { return p.info(service).Pos }

func packet(op wire.Opcode, k int) Packet { return Packet{op: op, psn: k} }

// SendFirst and its like are requests. Of FIRST and MIDDLE the payload is MTU bytes; of LAST and ONLY
// it is Short bytes when the peer sends them, and what the work request has left
// when they are expected.
func SendFirst(k int) Packet    { return packet(wire.SendFirst, k) }
func SendMiddle(k int) Packet   { return packet(wire.SendMiddle, k) }
func SendLast(k int) Packet     { return packet(wire.SendLast, k) }
func SendLastImm(k int) Packet  { return packet(wire.SendLastImm, k) }
func SendLastInv(k int) Packet  { return packet(wire.SendLastInv, k) }
func SendOnly(k int) Packet     { return packet(wire.SendOnly, k) }
func SendOnlyImm(k int) Packet  { return packet(wire.SendOnlyImm, k) }
func SendOnlyInv(k int) Packet  { return packet(wire.SendOnlyInv, k) }
func WriteFirst(k int) Packet   { return packet(wire.WriteFirst, k) }
func WriteMiddle(k int) Packet  { return packet(wire.WriteMiddle, k) }
func WriteLast(k int) Packet    { return packet(wire.WriteLast, k) }
func WriteLastImm(k int) Packet { return packet(wire.WriteLastImm, k) }
func WriteOnly(k int) Packet    { return packet(wire.WriteOnly, k) }
func WriteOnlyImm(k int) Packet { return packet(wire.WriteOnlyImm, k) }
func ReadRequest(k int) Packet  { return packet(wire.ReadRequest, k) }

// RespFirst and its like are READ responses, of what the READ with PSN k among its
// PSNs asks for.
func RespFirst(k int) Packet  { return packet(wire.ReadRespFirst, k) }
func RespMiddle(k int) Packet { return packet(wire.ReadRespMid, k) }
func RespLast(k int) Packet   { return packet(wire.ReadRespLast, k) }
func RespOnly(k int) Packet   { return packet(wire.ReadRespOnly, k) }

// Ack is an ACKNOWLEDGE of the requests up to k.
func Ack(k int) Packet {
	p := packet(wire.Acknowledge, k)
	p.syn = wire.SynACK(wire.NoCredits)
	return p
}

// Nak is an ACKNOWLEDGE that refuses k; RNR one that puts it off.
func Nak(k int, syn wire.Syndrome) Packet {
	p := packet(wire.Acknowledge, k)
	p.syn = syn
	return p
}

func RNR(k int, code uint8) Packet { return Nak(k, wire.SynRNR(code)) }

// NakSeq is the NAK 0x60; NakInvalid, NakAccess and NakOp are those up to 0x63.
func NakSeq(k int) Packet     { return Nak(k, wire.NakPSNSeq) }
func NakInvalid(k int) Packet { return Nak(k, wire.NakInvalidRequest) }
func NakAccess(k int) Packet  { return Nak(k, wire.NakRemoteAccess) }
func NakOp(k int) Packet      { return Nak(k, wire.NakRemoteOp) }

// AtomicAck answers an atomic with the word's value before it.
func AtomicAck(k int, orig uint64) Packet {
	p := packet(wire.AtomicAck, k)
	p.syn, p.orig = wire.SynACK(wire.NoCredits), orig
	return p
}

// AckReq sets the bit that asks for an acknowledgement; NoAckReq takes it off a
// packet of Msg.From.
func (p Packet) AckReq() Packet   { p.ackReq = true; return p }
func (p Packet) NoAckReq() Packet { p.ackReq = false; return p }

// SE sets the solicited event bit.
func (p Packet) SE() Packet { p.se = true; return p }

// Len sets the payload's length.
func (p Packet) Len(n int) Packet { p.n = n; p.set |= setLen; return p }

// Data sets the payload.
func (p Packet) Data(b []byte) Packet { p.data, p.n = b, len(b); p.set |= setData | setLen; return p }

// Range sets what the RETH covers: n bytes at offset off of the remote memory.
func (p Packet) Range(off, n int) Packet { p.off, p.total = off, n; p.set |= setRange; return p }

// VA sets the remote address.
func (p Packet) VA(va uint64) Packet { p.va = va; p.set |= setVA; return p }

// Key sets the R_Key, or the key to invalidate.
func (p Packet) Key(k uint32) Packet { p.rkey = k; p.set |= setKey; return p }

// Imm sets the immediate data.
func (p Packet) Imm(v uint32) Packet { p.imm = v; p.set |= setImm; return p }

// QKey and SrcQP set the fields of a datagram's DETH.
func (p Packet) QKey(k uint32) Packet  { p.qkey = k; p.set |= setQKey; return p }
func (p Packet) SrcQP(n uint32) Packet { p.srcQP = n; p.set |= setSrcQP; return p }

// Pad sets PadCnt and the number of pad bytes.
func (p Packet) Pad(n uint8) Packet { p.pad = n; p.set |= setPad; return p }

// PKey sets the P_Key.
func (p Packet) PKey(k uint16) Packet { p.pkey = k; p.set |= setPKey; return p }

// DestQP sets the destination.
func (p Packet) DestQP(n uint32) Packet { p.destQP = n; p.set |= setDest; return p }

// From and To set the addresses of a packet of the peer.
func (p Packet) From(g ibv.GID) Packet { p.from = g; p.set |= setFrom; return p }
func (p Packet) To(g ibv.GID) Packet   { p.to = g; p.set |= setTo; return p }

// MSN is the message sequence number that is expected of an answer. Without it
// that is the number of messages that the peer has sent up to the answer's PSN,
// for a NAK before it.
func (p Packet) MSN(n uint32) Packet { p.msn = n; p.set |= setMSN; return p }

// Credits is the credit code that is expected of an answer, which otherwise may
// have any.
func (p Packet) Credits(code uint8) Packet { p.credit = code; p.set |= setCredit; return p }

// Opcode makes a packet of the peer carry any opcode byte in the headers of the
// one that it was.
func (p Packet) Opcode(op wire.Opcode) Packet { p.raw = op; p.set |= setRaw; return p }

// BTH changes any field of the BTH of a packet of the peer, before its ICRC is
// computed; Frame any byte of its frame, after that.
func (p Packet) BTH(change func(*wire.BTH)) Packet { p.bth = change; return p }
func (p Packet) Frame(change func([]byte)) Packet  { p.frame = change; return p }

// Tagged puts a tag of four bytes, TPID and TCI, between the MAC addresses and
// the EtherType of a frame of the peer.
func (p Packet) Tagged(tag []byte) Packet { p.tag = tag; return p }

// String names the packet in messages.
func (p Packet) String() string { return fmt.Sprintf("%s %d", opName(p.op), p.psn) }

// opName is "WRITE_FIRST".
func opName(op wire.Opcode) string {
	info := (wire.RC | op).Info()
	if info == nil {
		return fmt.Sprintf("opcode %#02x", uint8(op))
	}
	return strings.TrimPrefix(strings.TrimPrefix(info.Name, "RC "), "RDMA_")
}
