package stage

import (
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// asked is a READ that the peer has sent.
type asked struct{ psn, off, n int }

func (a asked) packets() int { return max(1, (a.n+MTU-1)/MTU) }

// service is the transport prefix of the queue pair's opcodes.
func (s *Stage) service() wire.Opcode {
	switch s.cfg.typ {
	case ibv.QPTypeUC:
		return wire.UC
	case ibv.QPTypeUD, ibv.QPTypeGSI:
		return wire.UD
	default:
		return wire.RC
	}
}

// start has what does not depend on the opcode.
func (s *Stage) start(p *Packet, dest uint32) fields {
	s.Helper()
	info := p.info(s.service())
	if info == nil {
		s.Fatalf("%v is not a packet of this transport service", p)
	}
	f := fields{op: info.Opcode, psn: p.psn}
	f.bth = wire.BTHFields{SE: p.se, AckReq: p.ackReq, MigReq: true, PKey: wire.DefaultPKey, DestQP: dest}
	if p.has(setPKey) {
		f.bth.PKey = p.pkey
	}
	if p.has(setDest) {
		f.bth.DestQP = p.destQP
	}
	return f
}

// finish sets what the test has said itself, and the pad.
func (s *Stage) finish(p *Packet, f fields) fields {
	if p.has(setVA) {
		f.reth.VA, f.atomic.VA = p.va, p.va
	}
	if p.has(setKey) {
		f.reth.RKey, f.atomic.RKey, f.inv = p.rkey, p.rkey, p.rkey
	}
	if p.has(setImm) {
		f.imm = p.imm
	}
	if p.has(setQKey) {
		f.deth.QKey = p.qkey
	}
	if p.has(setSrcQP) {
		f.deth.SrcQP = p.srcQP
	}
	if p.has(setData) {
		f.payload = string(p.data)
	}
	if p.has(setCredit) {
		f.aeth.Syndrome = wire.SynACK(p.credit)
	}
	if p.has(setMSN) {
		f.aeth.MSN = p.msn
	}
	f.bth.PadCnt = uint8(wire.PadLen(len(f.payload)))
	if p.has(setPad) {
		f.bth.PadCnt = p.pad
	}
	// What the opcode has no header for is not part of the packet.
	info := f.op.Info()
	if info.RETH == 0 {
		f.reth = wire.RETHFields{}
	}
	if info.AtomicETH == 0 {
		f.atomic = wire.AtomicETHFields{}
	}
	if info.IETH == 0 {
		f.inv = 0
	}
	if info.ImmDt == 0 {
		f.imm = 0
	}
	return f
}

// expected is all of a packet that the queue pair must send: of a request what
// the work request with its PSN says, of a response what the peer has asked for.
func (s *Stage) expected(p Packet) fields {
	s.Helper()
	f := s.start(&p, PeerQPN)
	if p.info(s.service()).Response {
		s.answer(&p, &f)
	} else {
		s.request(&p, &f)
	}
	return s.finish(&p, f)
}

func (s *Stage) request(p *Packet, f *fields) {
	s.Helper()
	m := s.postedAt(p.psn)
	if m == nil {
		s.Fatalf("%v is expected, but no work request with that PSN was posted", p)
	}
	info, off := f.op.Info(), (p.psn-m.first)*MTU
	if info.Payload {
		n := min(MTU, m.n-off)
		if info.DETH != 0 {
			n = m.n
		}
		if p.has(setLen) {
			n = p.n
		}
		f.payload = s.gather(m, off, n)
	}
	w := &m.w
	f.reth = wire.RETHFields{VA: w.RemoteAddr, RKey: w.RKey, DMALen: uint32(m.n)}
	if p.op == wire.ReadRequest {
		f.reth.VA += uint64(off)
		f.reth.DMALen -= uint32(off)
	}
	if p.has(setRange) {
		f.reth.VA, f.reth.DMALen = PeerVA+uint64(p.off), uint32(p.total)
	}
	f.atomic = atomicOf(&m.Msg, w.RemoteAddr, w.RKey)
	f.imm, f.inv = w.Imm, w.Imm
	if info.DETH != 0 {
		f.deth = wire.DETHFields{QKey: w.RemoteQKey, SrcQP: QPN}
		f.ah = w.AH
		if !p.has(setDest) {
			f.bth.DestQP = w.RemoteQPN
		}
	}
	if info.FETH != 0 {
		f.feth = flushOf(&m.Msg)
	}
}

// gather is what a work request sends: n bytes at off of its entries, or of its
// inline data.
func (s *Stage) gather(m *posted, off, n int) string {
	s.Helper()
	if m.inline != nil {
		return string(m.inline[off : off+n])
	}
	var b strings.Builder
	for _, e := range m.sges {
		if e.Length == 0 {
			continue // it may name anything
		}
		from := int(e.Addr - s.local.Start())
		b.Write(s.Local(from, int(e.Length)))
	}
	if b.Len() < off+n {
		s.Fatalf("%d bytes at %d are expected, but the work request has %d", n, off, b.Len())
	}
	return b.String()[off : off+n]
}

func atomicOf(m *Msg, va uint64, rkey uint32) wire.AtomicETHFields {
	f := wire.AtomicETHFields{VA: va, RKey: rkey, SwapAdd: m.w.CompareAdd}
	if m.w.Opcode == ibv.WRAtomicCmpAndSwp {
		f.SwapAdd, f.Compare = m.w.Swap, m.w.CompareAdd
	}
	return f
}

func flushOf(m *Msg) wire.FETHFields {
	return wire.FETHFields{Placement: wire.Placement(m.w.FlushType), Selectivity: wire.Selectivity(m.w.FlushLevel)}
}

// answer is what a responder says to what it was asked.
func (s *Stage) answer(p *Packet, f *fields) {
	info := f.op.Info()
	if info.AETH != 0 {
		f.aeth = wire.AETHFields{Syndrome: p.syn, MSN: s.completed(p)}
	}
	f.orig = p.orig
	if !info.Payload {
		return
	}
	for _, a := range s.reads {
		if k := p.psn - a.psn; k >= 0 && k < a.packets() {
			n := min(MTU, a.n-k*MTU)
			if p.has(setLen) {
				n = p.n
			}
			if n > 0 { // of no bytes the address may be any
				f.payload = string(s.Remote(a.off+k*MTU, n))
			}
		}
	}
}

// completed is the number of messages that the peer has sent up to an answer's
// PSN, without it if that is a NAK.
func (s *Stage) completed(p *Packet) uint32 {
	last := p.psn
	if p.syn.Kind() != wire.KindACK {
		last--
	}
	n := uint32(0)
	for k := range s.ends {
		if k <= last {
			n++
		}
	}
	return n & psn.Mask
}

// arriving is all of a packet that the peer sends.
func (s *Stage) arriving(p Packet) fields {
	s.Helper()
	f := s.start(&p, QPN)
	info := f.op.Info()
	n := s.sizeOf(&p, info)
	f.payload = string(PeerData(p.psn, n))
	if info.Response {
		f.aeth = wire.AETHFields{Syndrome: p.syn, MSN: 1}
		if info.AETH != 0 && p.syn == 0 {
			f.aeth.Syndrome = wire.SynACK(wire.NoCredits)
		}
		f.orig = p.orig
		return s.finish(&p, f)
	}
	f.reth = wire.RETHFields{VA: s.RemoteVA() + uint64(p.off), RKey: s.RemoteKey(), DMALen: uint32(s.totalOf(&p, n))}
	if p.msg != nil {
		if p.msg.raw {
			f.reth.VA, f.reth.RKey = p.msg.w.RemoteAddr, p.msg.w.RKey
		}
		f.atomic = atomicOf(p.msg, f.reth.VA, f.reth.RKey)
		f.feth = flushOf(p.msg)
	}
	f.imm, f.inv = Imm, InvKey
	f.deth = wire.DETHFields{QKey: s.qkey(), SrcQP: PeerQPN}
	return s.finish(&p, f)
}

func (s *Stage) qkey() uint32 {
	if s.cfg.typ == ibv.QPTypeGSI {
		return 0x80010000
	}
	return s.cfg.attr.QKey
}

// sizeOf is the payload's length of a packet of the peer.
func (s *Stage) sizeOf(p *Packet, info *wire.OpInfo) int {
	switch m := s.postedAt(p.psn); {
	case p.has(setLen), p.msg != nil:
		return p.n
	case !info.Payload:
		return 0
	case info.Pos&wire.Last == 0:
		return MTU
	case !info.Response:
		return Short
	case m == nil || m.w.Opcode != ibv.WRRDMARead:
		return 0
	default:
		return min(MTU, m.n-(p.psn-m.first)*MTU)
	}
}

// totalOf is the length that a RETH of the peer has.
func (s *Stage) totalOf(p *Packet, n int) int {
	switch {
	case p.has(setRange), p.msg != nil:
		return p.total
	case p.op == wire.WriteFirst:
		return MTU + Short
	case p.op == wire.ReadRequest:
		return Short
	default:
		return n
	}
}

// PeerData is the payload of n bytes that the peer puts into a packet with PSN k
// when the test does not say another.
func PeerData(k, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*11 + k*53 + 5)
	}
	return b
}

// Payload is what packets of the peer carry together, when each has the data of
// PeerData.
func Payload(packets ...Packet) []byte {
	var all []byte
	for _, p := range packets {
		n := p.n
		if !p.has(setLen) && p.msg == nil {
			n = Short
			if p.info(wire.RC).Pos&wire.Last == 0 {
				n = MTU
			}
		}
		if p.has(setData) {
			all = append(all, p.data...)
			continue
		}
		all = append(all, PeerData(p.psn, n)...)
	}
	return all
}
