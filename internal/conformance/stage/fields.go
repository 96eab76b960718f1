package stage

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// fields is all that a packet says from its BTH on.
type fields struct {
	op      wire.Opcode // with its transport prefix
	psn     int         // from SQPSN or RQPSN
	bth     wire.BTHFields
	reth    wire.RETHFields
	atomic  wire.AtomicETHFields
	aeth    wire.AETHFields
	deth    wire.DETHFields
	feth    wire.FETHFields
	orig    uint64
	imm     uint32
	inv     uint32
	ah      uint32
	payload string
}

// base is what the PSN of a packet is counted from: the queue pair's requests
// and the answers to them have PSNs of their own.
func base(info *wire.OpInfo, arriving bool) psn.PSN {
	if info.Response == arriving {
		return SQPSN
	}
	return RQPSN
}

// encode is the packet from the BTH to the last pad byte.
func (f *fields) encode(arriving bool) []byte {
	info := f.op.Info()
	b := make([]byte, info.HeaderLen, info.HeaderLen+len(f.payload)+3)
	f.bth.Opcode, f.bth.PSN = f.op, base(info, arriving).Add(f.psn)
	wire.BTHAt(b).Encode(&f.bth)
	if info.RETH != 0 {
		wire.RETHAt(b[info.RETH:]).Encode(&f.reth)
	}
	if info.AtomicETH != 0 {
		wire.AtomicETHAt(b[info.AtomicETH:]).Encode(&f.atomic)
	}
	if info.AETH != 0 {
		wire.AETHAt(b[info.AETH:]).Encode(&f.aeth)
	}
	if info.AtomicAckETH != 0 {
		wire.AtomicAckETHAt(b[info.AtomicAckETH:]).SetOrig(f.orig)
	}
	if info.ImmDt != 0 {
		binary.BigEndian.PutUint32(b[info.ImmDt:], f.imm)
	}
	if info.IETH != 0 {
		wire.IETHAt(b[info.IETH:]).SetRKey(f.inv)
	}
	if info.DETH != 0 {
		wire.DETHAt(b[info.DETH:]).Encode(&f.deth)
	}
	if info.FETH != 0 {
		wire.FETHAt(b[info.FETH:]).Encode(&f.feth)
	}
	b = append(b, f.payload...)
	return append(b, make([]byte, f.bth.PadCnt)...)
}

// decode takes a packet apart that the queue pair sends.
func (s *Stage) decode(in *transport.Intent) (f fields) {
	s.Helper()
	info, b := in.Info, in.Hdr[:in.HdrLen]
	f.op = info.Opcode
	f.bth = wire.BTHAt(b).Fields()
	if f.bth.Opcode != info.Opcode || in.HdrLen != info.HeaderLen || in.PSN != f.bth.PSN {
		s.Fatalf("%v, PSN %v: headers % x do not fit", info.Name, in.PSN, b)
	}
	f.psn = f.bth.PSN.Sub(base(info, false))
	f.bth.PSN, f.bth.Opcode = 0, 0
	if info.RETH != 0 {
		f.reth = wire.RETHAt(b[info.RETH:]).Fields()
	}
	if info.AtomicETH != 0 {
		f.atomic = wire.AtomicETHAt(b[info.AtomicETH:]).Fields()
	}
	if info.AETH != 0 {
		f.aeth = wire.AETHAt(b[info.AETH:]).Fields()
	}
	if info.AtomicAckETH != 0 {
		f.orig = wire.AtomicAckETHAt(b[info.AtomicAckETH:]).Orig()
	}
	if info.ImmDt != 0 {
		f.imm = binary.BigEndian.Uint32(b[info.ImmDt:])
	}
	if info.IETH != 0 {
		f.inv = wire.IETHAt(b[info.IETH:]).RKey()
	}
	if info.DETH != 0 {
		f.deth = wire.DETHAt(b[info.DETH:]).Fields()
	}
	if info.FETH != 0 {
		f.feth = wire.FETHAt(b[info.FETH:]).Fields()
	}
	f.ah = in.AH
	data := make([]byte, in.Len)
	if !s.tx.Gather(in, data) {
		s.Fatalf("%v: the memory of its payload is gone", info.Name)
	}
	f.payload = string(data)
	return f
}

// String is a line for messages: what nearly all packets have alike is left out.
func (f *fields) String() string {
	info := f.op.Info()
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, " "+format, args...) }
	fmt.Fprintf(&b, "%s %d", strings.Replace(info.Name, "RDMA_", "", 1), f.psn)
	if info.RETH != 0 {
		add("[%#x key %#x, %d]", f.reth.VA, f.reth.RKey, f.reth.DMALen)
	}
	if info.AtomicETH != 0 {
		add("[%#x key %#x] swap/add %d compare %d", f.atomic.VA, f.atomic.RKey, f.atomic.SwapAdd, f.atomic.Compare)
	}
	if info.AETH != 0 {
		add("%s MSN %d", syndromeName(f.aeth.Syndrome), f.aeth.MSN)
	}
	if info.AtomicAckETH != 0 {
		add("was %d", f.orig)
	}
	if info.ImmDt != 0 {
		add("imm %#x", f.imm)
	}
	if info.IETH != 0 {
		add("invalidates %#x", f.inv)
	}
	if info.DETH != 0 {
		add("Q_Key %#x from QP %#x by AH %d", f.deth.QKey, f.deth.SrcQP, f.ah)
	}
	if info.FETH != 0 {
		add("%+v", f.feth)
	}
	if info.Payload {
		add("%dB", len(f.payload))
	}
	h := &f.bth
	if h.AckReq {
		add("AckReq")
	}
	if h.SE {
		add("SE")
	}
	if !h.MigReq {
		add("M=0")
	}
	if h.PKey != wire.DefaultPKey {
		add("P_Key %#x", h.PKey)
	}
	if h.DestQP != PeerQPN {
		add("to QP %#x", h.DestQP)
	}
	if int(h.PadCnt) != wire.PadLen(len(f.payload)) {
		add("PadCnt %d", h.PadCnt)
	}
	if h.TVer != 0 || h.FECN || h.BECN {
		add("TVer %d FECN %v BECN %v", h.TVer, h.FECN, h.BECN)
	}
	return b.String()
}

func syndromeName(s wire.Syndrome) string {
	switch s.Kind() {
	case wire.KindACK:
		return fmt.Sprintf("credits %d", s.Code())
	case wire.KindRNR:
		return fmt.Sprintf("RNR %d", s.Code())
	default:
		return fmt.Sprintf("NAK %#02x", uint8(s))
	}
}

// difference says what lines do not show, if anything.
func (f *fields) difference(want *fields) string {
	if f.String() != want.String() {
		return ""
	}
	for i := range min(len(f.payload), len(want.payload)) {
		if f.payload[i] != want.payload[i] {
			return fmt.Sprintf("\n%s: payload byte %d is %#02x, want %#02x", f, i, f.payload[i], want.payload[i])
		}
	}
	return fmt.Sprintf("\n%+v, want %+v", *f, *want)
}
