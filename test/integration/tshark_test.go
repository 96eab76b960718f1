package integration_test

import (
	"bytes"
	"encoding/hex"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/test/netns"
)

func requireTshark(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("tshark"); err != nil {
		netns.Missing(t, "tshark", "tshark is not installed")
	}
}

// roceFields are what two decoders must agree on. What a packet does not have is
// zero.
type roceFields struct {
	Opcode, PadCnt, Syndrome   uint8
	PKey                       uint16
	SE, MigReq, AckReq         bool
	DestQP, PSN, MSN           uint32
	VA                         uint64
	RKey, DMALen               uint32
	SwapAdd, Compare, Original uint64
	Imm                        string // hexadecimal
}

// unknownToTshark are the opcodes of which tshark knows the BTH alone.
func unknownToTshark(op wire.Opcode) bool {
	return op == wire.Flush || op == wire.AtomicWrite || op.Transport() == wire.XRC
}

// fieldsOf are the fields as our decoder sees them, as far as tshark does.
func fieldsOf(p *wire.Packet) roceFields {
	h := p.Hdr()
	f := roceFields{
		Opcode: uint8(p.Opcode), PadCnt: h.PadCnt(), PKey: h.PKey(), SE: h.SE(), MigReq: h.MigReq(), AckReq: h.AckReq(),
		DestQP: h.DestQP(), PSN: uint32(h.PSN()),
	}
	if unknownToTshark(p.Opcode) {
		return f
	}
	if p.Info.AETH != 0 {
		f.Syndrome, f.MSN = uint8(p.AETH().Syndrome()), p.AETH().MSN()
	}
	if i := p.Info.RETH; i != 0 {
		r := wire.RETHAt(p.BTH[i:])
		f.VA, f.RKey, f.DMALen = r.VA(), r.RKey(), r.DMALen()
	}
	if i := p.Info.AtomicETH; i != 0 {
		a := wire.AtomicETHAt(p.BTH[i:])
		f.VA, f.RKey, f.SwapAdd, f.Compare = a.VA(), a.RKey(), a.SwapAdd(), a.Compare()
	}
	if i := p.Info.AtomicAckETH; i != 0 {
		f.Original = wire.AtomicAckETHAt(p.BTH[i:]).Orig()
	}
	if i := p.Info.ImmDt; i != 0 {
		f.Imm = hex.EncodeToString(p.BTH[i : i+4])
	}
	return f
}

// row is what tshark says of one frame.
type row struct {
	roce      bool
	complaint string // malformed, or an expert's error
	fields    roceFields
}

// columns are what tshark is asked for, and where each goes.
var columns = []struct {
	name string
	set  func(r *row, v string) error
}{
	{"udp.dstport", func(r *row, v string) error { r.roce = v == "4791"; return nil }},
	{"_ws.malformed", func(r *row, v string) error { r.complaint += v; return nil }},
	{"_ws.expert.severity", func(r *row, v string) error { return expert(r, v) }},
	{"infiniband.bth.opcode", func(r *row, v string) error { return number(&r.fields.Opcode, v) }},
	{"infiniband.bth.padcnt", func(r *row, v string) error { return number(&r.fields.PadCnt, v) }},
	{"infiniband.bth.p_key", func(r *row, v string) error { return number(&r.fields.PKey, v) }},
	{"infiniband.bth.se", func(r *row, v string) error { r.fields.SE = truth(v); return nil }},
	{"infiniband.bth.m", func(r *row, v string) error { r.fields.MigReq = truth(v); return nil }},
	{"infiniband.bth.a", func(r *row, v string) error { r.fields.AckReq = truth(v); return nil }},
	{"infiniband.bth.destqp", func(r *row, v string) error { return number(&r.fields.DestQP, v) }},
	{"infiniband.bth.psn", func(r *row, v string) error { return number(&r.fields.PSN, v) }},
	{"infiniband.aeth.syndrome", func(r *row, v string) error { return number(&r.fields.Syndrome, v) }},
	{"infiniband.aeth.msn", func(r *row, v string) error { return number(&r.fields.MSN, v) }},
	{"infiniband.reth.va", func(r *row, v string) error { return number(&r.fields.VA, v) }},
	{"infiniband.reth.r_key", func(r *row, v string) error { return number(&r.fields.RKey, v) }},
	{"infiniband.reth.dmalen", func(r *row, v string) error { return number(&r.fields.DMALen, v) }},
	{"infiniband.atomiceth.swapdt", func(r *row, v string) error { return number(&r.fields.SwapAdd, v) }},
	{"infiniband.atomiceth.cmpdt", func(r *row, v string) error { return number(&r.fields.Compare, v) }},
	{"infiniband.atomicacketh.origremdt", func(r *row, v string) error { return number(&r.fields.Original, v) }},
	{"infiniband.immdt", func(r *row, v string) error { r.fields.Imm = immediate(v); return nil }},
}

func number[T uint8 | uint16 | uint32 | uint64](to *T, v string) error {
	n, err := strconv.ParseUint(v, 0, 64)
	*to = T(n)
	return err
}

// immediate reads immediate data, which tshark lists twice.
func immediate(v string) string {
	first, _, _ := strings.Cut(v, ",")
	return strings.ReplaceAll(first, ":", "")
}

// truth reads a boolean: versions before 4.2 write 1, later ones True.
func truth(v string) bool { return v == "1" || v == "True" }

// expert notes severities of PI_ERROR and above. There may be several.
func expert(r *row, v string) error {
	const piError = 0x00800000
	for one := range strings.SplitSeq(v, ",") {
		var severity uint32
		if err := number(&severity, one); err != nil {
			return err
		}
		if severity >= piError {
			r.complaint += " expert error"
		}
	}
	return nil
}

// guessers are protocols that tshark looks for in any payload of RoCE: random
// bytes may look like one of them, and a broken one at that.
var guessers = []string{"rpcordma", "smb_direct", "nvme-rdma", "iser", "lnet", "smc", "infiniband_sdp", "infiniband.eoib", "fcoib"}

// tshark decodes a capture file: one row for each frame.
func tshark(t *testing.T, file string) []row {
	t.Helper()
	args := []string{
		"-r", file, "-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,",
		// RoCEv2 has no UDP checksum over IPv6 either (IBTA annex A17).
		"-o", "udp.ignore_ipv6_zero_checksum:TRUE",
	}
	args = append(args, "--disable-heuristic", "eth_over_ib")
	for _, name := range guessers {
		args = append(args, "--disable-protocol", name)
	}
	for _, c := range columns {
		args = append(args, "-e", c.name)
	}
	cmd := exec.Command("tshark", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark: %v: %s", err, stderr.String())
	}
	var rows []row
	for line := range bytes.Lines(out) {
		var r row
		for i, v := range strings.Split(strings.TrimSuffix(string(line), "\n"), "\t") {
			if v == "" {
				continue
			}
			if err := columns[i].set(&r, v); err != nil {
				t.Fatalf("tshark's %s of frame %d: %v", columns[i].name, len(rows)+1, err)
			}
		}
		rows = append(rows, r)
	}
	return rows
}
