package transport

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

const (
	reqPD    = memory.PD(3)
	reqMTU   = 256
	reqRKey  = 0x5001
	reqVA    = 0x10_0000 // where the work requests of a test point at the peer
	reqBytes = 1 << 17   // local memory
	reqAH    = 7
	reqSRQN  = 9
	reqQKey  = 0x2222_2222 // of the peer
	reqOwn   = 0x9111_1111 // of the queue pair: privileged
)

// reqPattern is what local memory holds at first.
var reqPattern = func() []byte {
	b := make([]byte, reqBytes)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}()

// reqConfig is what a test of the requester chooses; reqDefaults has the rest.
type reqConfig struct {
	typ      ibv.QPType
	start    psn.PSN
	mtu      ibv.MTU
	rd       uint8 // max_rd_atomic
	timeout  uint8
	retry    uint8
	rnr      uint8
	window   int
	batch    int
	wr       int
	sge      int
	inline   int
	cqe      int
	mem      int  // bytes of local memory
	unsigned bool // do not signal by default
	unknown  bool // whether the peer keeps packets; else it has shown that it does not
	sigAll   bool
}

func reqDefaults() reqConfig {
	return reqConfig{typ: ibv.QPTypeRC, mtu: ibv.MTU256, rd: 4, timeout: 14, retry: 3, rnr: 3, window: 64, batch: 64, wr: 64, sge: 4, inline: 64, cqe: 256, mem: reqBytes}
}

// reqRig is a requester between a test that posts work requests and a peer that
// the test plays. PSNs are counted from the first.
type reqRig struct {
	testing.TB
	reqConfig
	qp    *QP
	env   *Env
	tx    *Batch
	sq    *queue.Producer
	cq    *queue.Consumer
	now   mono.Time
	mr    *memory.Region
	local []byte
	id    uint64
}

func newReqRig(t testing.TB, c reqConfig) *reqRig {
	t.Helper()
	mem := bytes.Clone(reqPattern[:c.mem])
	seed := uint32(1)
	table := memory.NewTable(16, func() uint32 { seed = seed*1664525 + 1013904223; return seed })
	mr, err := table.Register(reqPD, memory.AddressOf(mem), mem, ibv.AccessLocalWrite)
	must(t, err)
	sq, err := queue.New(c.wr, queue.SendElemSize(c.sge, c.inline))
	must(t, err)
	cq, err := queue.New(c.cqe, queue.CQESize)
	must(t, err)
	r := &reqRig{TB: t, reqConfig: c, env: NewEnv(table), tx: NewBatch(c.batch), mr: mr, local: mem, now: 1000}
	r.env.Window = c.window
	r.sq, r.cq = queue.NewProducer(sq), queue.NewConsumer(cq)
	r.qp = NewQP(r.env, Config{
		QPN: 0x11, Type: c.typ, PD: reqPD, SQ: sq, SendCQ: NewCQ(cq), RecvCQ: NewCQ(cq), SigAll: c.sigAll, Context: 77,
		Cap: ibv.QPCap{MaxSendWR: c.wr, MaxSendSGE: c.sge, MaxInline: c.inline},
	})
	q := r.qp
	q.state, q.mtu, q.destQPN = ibv.QPStateRTS, c.mtu.Bytes(), 0x22
	q.selfGID, q.peerGID = ibv.GID{15: 1}, ibv.GID{15: 2}
	q.attr.SQPSN, q.attr.MaxRDAtomic, q.attr.Timeout = uint32(c.start), c.rd, c.timeout
	q.attr.RetryCnt, q.attr.RNRRetry = c.retry, c.rnr
	q.attr.QKey = reqOwn
	if q.oneWay() { // Modify takes none of these
		q.attr.MaxRDAtomic, q.attr.Timeout, q.attr.RetryCnt, q.attr.RNRRetry = 0, 0, 0, 0
	}
	q.SetPortMTU(c.mtu.Bytes())
	q.reqStart(r.now)
	if !c.unknown {
		q.req.fix.keeps.wait = 255
	}
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reqEach runs f on rigs whose PSNs start at 0, somewhere, and so that they wrap
// within or between the first messages.
func reqEach(t *testing.T, change func(*reqConfig), f func(*reqRig)) {
	for _, start := range []psn.PSN{0, 0x1234, 0xFFFFFE, 0xFFFFFF, 0x7FFFFF} {
		t.Run(fmt.Sprintf("from %06x", uint32(start)), func(t *testing.T) {
			c := reqDefaults()
			if change != nil {
				change(&c)
			}
			c.start = start
			f(newReqRig(t, c))
		})
	}
}

// va is the address of byte off of the local memory.
func (r *reqRig) va(off int) uint64 { return r.mr.Start() + uint64(off) }

// sge is n bytes at byte off of the local memory.
func (r *reqRig) sge(off, n int) queue.SGE {
	return queue.SGE{Addr: r.va(off), Length: uint32(n), LKey: r.mr.LKey()}
}

// post puts w into the send queue as it is, but for WRID: 1, 2, 3...
func (r *reqRig) post(w queue.SendWQE, sges ...queue.SGE) {
	if r.sq.FreeNow() == 0 {
		r.Fatal("send queue is full")
	}
	r.id++
	w.WRID = r.id
	slot := r.sq.Slot(0)
	queue.PutSend(slot, &w)
	for i, s := range sges[:min(len(sges), queue.SendMaxSGE(len(slot)))] {
		queue.PutSendSGE(slot, i, s)
	}
	r.sq.Publish(1)
}

// wr posts op over sges, or over length bytes at the start of the local memory.
func (r *reqRig) wr(op ibv.WROpcode, length int, sges ...queue.SGE) {
	r.Helper()
	if sges == nil && length > 0 {
		sges = []queue.SGE{r.sge(0, length)}
	}
	flags := ibv.SendSignaled
	if r.unsigned {
		flags = 0
	}
	w := r.hdr(op, flags)
	w.NumSGE, w.Length = uint16(len(sges)), uint32(length)
	r.post(w, sges...)
}

// hdr is a work request of op without local memory.
func (r *reqRig) hdr(op ibv.WROpcode, flags ibv.SendFlags) queue.SendWQE {
	return queue.SendWQE{
		Opcode: op, Flags: flags, RemoteAddr: reqVA, RKey: reqRKey,
		Imm: 0xA1B2C3D4, CompareAdd: 5, Swap: 6, AH: reqAH, RemoteQPN: 0x22, RemoteQKey: reqQKey, SRQN: reqSRQN,
	}
}

func (r *reqRig) send(n int)  { r.Helper(); r.wr(ibv.WRSend, n) }
func (r *reqRig) write(n int) { r.Helper(); r.wr(ibv.WRRDMAWrite, n) }
func (r *reqRig) read(n int)  { r.Helper(); r.wr(ibv.WRRDMARead, n) }
func (r *reqRig) fadd()       { r.Helper(); r.wr(ibv.WRAtomicFetchAdd, 8) }

// poll runs Poll once and lists what was sent.
func (r *reqRig) poll() []string {
	r.Helper()
	r.tx.Reset(r.batch)
	r.qp.Poll(r.now, r.tx)
	var out []string
	for i := range r.tx.Intents {
		out = append(out, r.describe(&r.tx.Intents[i]))
	}
	return out
}

// describe writes a packet as "WRITE_FIRST 0 [+0 700] 256B A": opcode, PSN from
// the start, remote range from reqVA, payload, AckReq and SE.
func (r *reqRig) describe(in *Intent) string {
	h := wire.BTHAt(in.Hdr[:])
	prefix := map[ibv.QPType]string{ibv.QPTypeRC: "RC ", ibv.QPTypeUC: "UC ", ibv.QPTypeUD: "UD ", ibv.QPTypeGSI: "UD ", ibv.QPTypeXRCSend: "XRC "}[r.typ]
	op := strings.TrimPrefix(strings.TrimPrefix(h.Opcode().String(), prefix), "RDMA_")
	s := fmt.Sprintf("%s %d", op, h.PSN().Sub(r.start))
	if in.Info.XRCETH != 0 {
		s += fmt.Sprintf(" srq %d", wire.XRCETHAt(in.Hdr[in.Info.XRCETH:]).SRQN())
	}
	if in.Info.RETH != 0 {
		f := wire.RETHAt(in.Hdr[in.Info.RETH:]).Fields()
		s += fmt.Sprintf(" [+%d %d]", f.VA-reqVA, f.DMALen)
	}
	if in.Info.DETH != 0 {
		f := wire.DETHAt(in.Hdr[in.Info.DETH:]).Fields()
		s += fmt.Sprintf(" key %x", f.QKey)
		if f.SrcQP != 0x11 || in.AH != reqAH {
			s += fmt.Sprintf(" BAD SOURCE %#x AH %d", f.SrcQP, in.AH)
		}
	} else if in.AH != 0 {
		s += fmt.Sprintf(" BAD AH %d", in.AH)
	}
	if in.Len > 0 {
		s += fmt.Sprintf(" %dB", in.Len)
	}
	if h.AckReq() {
		s += " A"
	}
	if h.SE() {
		s += " SE"
	}
	if in.PSN != h.PSN() || in.HdrLen != in.Info.HeaderLen || h.PadCnt() != uint8(-in.Len&3) || h.DestQP() != 0x22 || !h.MigReq() {
		s += fmt.Sprintf(" BAD HEADER % x", in.Hdr[:in.HdrLen])
	}
	return s
}

// expect polls and wants exactly these packets.
func (r *reqRig) expect(want ...string) {
	r.Helper()
	if d := cmp.Diff(want, r.poll()); d != "" {
		r.Fatalf("sent (-want +got):\n%s", d)
	}
}

// done wants exactly these completions: "1 SUCCESS", "2 SUCCESS 600B".
func (r *reqRig) done(want ...string) {
	r.Helper()
	var got []string
	n, _ := r.cq.Avail()
	for range n {
		var c queue.CQE
		queue.GetCQE(r.cq.Slot(0), &c)
		r.cq.Release(1)
		s := fmt.Sprintf("%d %v", c.WRID, c.Status)
		if c.ByteLen > 0 {
			s += fmt.Sprintf(" %dB", c.ByteLen)
		}
		if c.QPN != 0x11 || c.QPContext != 77 || c.Timestamp != int64(r.now) {
			s += fmt.Sprintf(" BAD ENTRY %+v", c)
		}
		got = append(got, s)
	}
	if d := cmp.Diff(want, got); d != "" {
		r.Fatalf("completions (-want +got):\n%s", d)
	}
}

// failed wants completion first and then the n work requests from id on
// flushed.
func (r *reqRig) failed(first string, id, n int) {
	r.Helper()
	want := []string{first}
	for i := range n {
		want = append(want, fmt.Sprintf("%d WR_FLUSH_ERR", id+i))
	}
	r.done(want...)
	r.inState(ibv.QPStateErr)
}

func (r *reqRig) inState(want ibv.QPState) {
	r.Helper()
	if r.qp.state != want {
		r.Fatalf("state is %v, want %v", r.qp.state, want)
	}
}

// counted wants counter c at n.
func (r *reqRig) counted(c Counter, n uint64) {
	r.Helper()
	if got := r.env.Counters[c]; got != n {
		r.Errorf("%v is %d, want %d", c, got, n)
	}
}

// stopped wants the requester to be stopped by s.
func (r *reqRig) stopped(s reqState) {
	r.Helper()
	if r.qp.req.state != s {
		r.Fatalf("stopped by %v, want %v", r.qp.req.state, s)
	}
}

// pass lets time go by.
func (r *reqRig) pass(d time.Duration) { r.now = r.now.Add(d) }

// deadline wants the next deadline in d; 0 means none.
func (r *reqRig) deadline(d time.Duration) {
	r.Helper()
	want := mono.Never
	if d != 0 {
		want = r.now.Add(d)
	}
	if got := r.qp.NextDeadline(); got != want {
		r.Fatalf("deadline is in %v, want %v", got.Sub(r.now), want.Sub(r.now))
	}
}

// packet hands the requester a response with PSN k from the start; put writes
// its extension headers.
func (r *reqRig) packet(op wire.Opcode, k int, payload []byte, put func(*wire.Packet)) {
	if r.typ == ibv.QPTypeXRCSend {
		op |= wire.XRC
	}
	p := &wire.Packet{Info: op.Info(), Opcode: op, SrcGID: r.qp.peerGID, DstGID: r.qp.selfGID, PayloadLen: len(payload)}
	p.BTH = make([]byte, p.Info.HeaderLen)
	wire.BTHAt(p.BTH).Encode(&wire.BTHFields{Opcode: op, PKey: 0xFFFF, DestQP: 0x11, PSN: r.start.Add(k)})
	// Two segments wherever possible: the second one byte longer.
	for rest := payload; len(rest) > 0 && p.NPayload < 2; p.NPayload++ {
		n := len(rest)
		if p.NPayload == 0 {
			n = (n + 1) / 2
		}
		p.Payload[p.NPayload] = rest[:n]
		rest = rest[n:]
	}
	if put != nil {
		put(p)
	}
	r.qp.HandlePacket(r.now, p)
}

func withSyndrome(s wire.Syndrome) func(*wire.Packet) {
	return func(p *wire.Packet) {
		if p.Info.AETH != 0 {
			p.AETH().Encode(&wire.AETHFields{Syndrome: s, MSN: 1})
		}
	}
}

func (r *reqRig) ackWith(k int, s wire.Syndrome) { r.packet(wire.Acknowledge, k, nil, withSyndrome(s)) }
func (r *reqRig) ack(k int)                      { r.ackWith(k, wire.SynACK(31)) }
func (r *reqRig) nak(k int)                      { r.ackWith(k, wire.NakPSNSeq) }
func (r *reqRig) rnrNak(k int, code uint8)       { r.ackWith(k, wire.SynRNR(code)) }

// resp hands over a READ response.
func (r *reqRig) resp(op wire.Opcode, k int, payload []byte) {
	r.packet(op, k, payload, withSyndrome(wire.SynACK(31)))
}

func (r *reqRig) atomicAck(k int, orig uint64) {
	r.packet(wire.AtomicAck, k, nil, func(p *wire.Packet) {
		withSyndrome(wire.SynACK(31))(p)
		p.AtomicAckETH().SetOrig(orig)
	})
}

// answer plays the responder to the READ of n bytes whose first packet is k: all
// responses from offset from up to but not including offset to.
func (r *reqRig) answer(k, n, from, to int) {
	mtu := r.mtu.Bytes()
	last := max(1, (n+mtu-1)/mtu) - 1
	for i := from; i < to; i++ {
		r.resp(reqRespOp(i-from, last+1-from), k+i, reqRemote(n)[i*mtu:min((i+1)*mtu, n)])
	}
}

// reqRespOp is the opcode of the i-th of n READ responses.
func reqRespOp(i, n int) wire.Opcode {
	switch {
	case n == 1:
		return wire.ReadRespOnly
	case i == 0:
		return wire.ReadRespFirst
	case i == n-1:
		return wire.ReadRespLast
	}
	return wire.ReadRespMid
}

// reqRemote is the peer's memory: n bytes that differ from the local memory.
func reqRemote(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = ^byte(i*7 + i>>8)
	}
	return b
}

// payload is what the i-th packet of the last poll carries.
func (r *reqRig) payload(i int) []byte {
	r.Helper()
	b := make([]byte, r.tx.Intents[i].Len)
	if !r.tx.Gather(&r.tx.Intents[i], b) {
		r.Fatalf("packet %d: memory of its payload is gone", i)
	}
	return b
}

func nativeWord(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }
