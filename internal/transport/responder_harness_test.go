package transport

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// The rig is one responder with a region of memory, receive work requests and a
// completion queue. Tests say what arrives and what is expected: answers on the
// wire, completions, events, memory.

const (
	respPD      = memory.PD(7)
	respBase    = uint64(0x100000) // address of the region's first byte
	respSize    = 64 << 10
	respMTU     = 256
	respRNRCode = 12
	respStart   = psn.PSN(1000)
	respQKey    = 0x0123_4567 // of a datagram queue pair
)

var (
	respSelf = ibv.GID{15: 1}
	respPeer = ibv.GID{15: 2}
)

type respRig struct {
	t   *testing.T
	env *Env
	q   *QP
	mem []byte
	mr  *memory.Region
	now mono.Time
	tx  *Batch
	rq  *queue.Producer
	cq  *queue.Consumer
	ref uint64
}

type respOption func(*Config, *ibv.QPAttr)

// respAt sets the first PSN that is expected.
func respAt(p psn.PSN) respOption { return func(_ *Config, a *ibv.QPAttr) { a.RQPSN = uint32(p) } }

func respAccessFlags(f ibv.Access) respOption {
	return func(_ *Config, a *ibv.QPAttr) { a.AccessFlags = f }
}

func respDest(n uint8) respOption {
	return func(_ *Config, a *ibv.QPAttr) { a.MaxDestRDAtomic = n }
}

// respOn sets the transport service.
func respOn(typ ibv.QPType) respOption { return func(c *Config, _ *ibv.QPAttr) { c.Type = typ } }

func respCQEntries(n int) respOption {
	return func(c *Config, _ *ibv.QPAttr) { c.RecvCQ = NewCQ(respRing(n, queue.CQESize)) }
}

func respRing(n, elem int) *queue.Ring {
	r, err := queue.New(n, elem)
	if err != nil {
		panic(err)
	}
	return r
}

const respAllAccess = ibv.AccessLocalWrite | ibv.AccessRemoteWrite | ibv.AccessRemoteRead | ibv.AccessRemoteAtomic | ibv.AccessFlushGlobal

// newRespRig is a responder in RTR that expects respStart and grants everything.
func newRespRig(t *testing.T, opts ...respOption) *respRig {
	t.Helper()
	seed := uint32(0x1234)
	r := &respRig{t: t, tx: NewBatch(64), mem: make([]byte, respSize), now: 1_000_000}
	tab := memory.NewTable(16, func() uint32 { seed = seed*1664525 + 1013904223; return seed })
	r.env = NewEnv(tab)
	r.mr = r.register(respPD, respBase, r.mem, respAllAccess)

	cfg := Config{
		QPN: 0x11, Type: ibv.QPTypeRC, PD: respPD, Context: 0xC0FFEE,
		Cap:    ibv.QPCap{MaxSendWR: 4, MaxRecvWR: 64, MaxSendSGE: 1, MaxRecvSGE: ibv.MaxSGE},
		SendCQ: NewCQ(respRing(16, queue.CQESize)),
		RecvCQ: NewCQ(respRing(256, queue.CQESize)),
		SQ:     respRing(4, queue.SendElemSize(1, 0)),
		RQ:     respRing(64, queue.RecvElemSize(ibv.MaxSGE)),
	}
	attr := ibv.QPAttr{
		Port: 1, AccessFlags: respAllAccess, PathMTU: ibv.MTU256, DestQPN: 0x22, RQPSN: uint32(respStart),
		MaxDestRDAtomic: 4, MinRNRTimer: respRNRCode, QKey: respQKey, AV: ibv.AddressVector{DGID: respPeer, Port: 1},
	}
	for _, o := range opts {
		o(&cfg, &attr)
	}
	r.rq = queue.NewProducer(cfg.RQ)
	if cfg.SRQ != nil || cfg.XRCD != nil {
		cfg.RQ = nil
	}
	r.attach(cfg, attr)
	return r
}

// attach makes the queue pair and brings it to RTR.
func (r *respRig) attach(cfg Config, attr ibv.QPAttr) {
	r.t.Helper()
	r.cq = queue.NewConsumer(cfg.RecvCQ.prod.Ring())
	if cfg.XRCD != nil {
		cfg.RecvCQ, cfg.SendCQ, cfg.SQ, cfg.PD = nil, nil, nil, 0
	}
	r.q = NewQP(r.env, cfg)
	r.q.SetPortMTU(respMTU)
	r.connect(attr)
}

func (r *respRig) connect(attr ibv.QPAttr) {
	r.t.Helper()
	for _, state := range []ibv.QPState{ibv.QPStateInit, ibv.QPStateRTR} {
		set, ok := lookup(r.q.cfg.Type, r.q.state, state)
		if !ok {
			r.t.Fatalf("a %v QP cannot go to %v", r.q.cfg.Type, state)
		}
		attr.State = state
		r.modify(attr, ibv.QPAttrState|set.required)
	}
}

func (r *respRig) modify(attr ibv.QPAttr, mask ibv.AttrMask) {
	r.t.Helper()
	if err := r.q.Modify(r.now, &attr, mask, respSelf, respPeer); err != nil {
		r.t.Fatalf("Modify to %v: %v", attr.State, err)
	}
}

func (r *respRig) register(pd memory.PD, va uint64, mem []byte, access ibv.Access) *memory.Region {
	r.t.Helper()
	mr, err := r.env.Mem.Register(pd, va, mem, access)
	if err != nil {
		r.t.Fatal(err)
	}
	return mr
}

// at is the address of byte off of the region.
func (r *respRig) at(off int) uint64 { return respBase + uint64(off) }

// post posts a receive work request of entries in the rig's region, given as
// offset and length pairs.
func (r *respRig) post(wrid uint64, pairs ...int) {
	r.t.Helper()
	var sges []queue.SGE
	for i := 0; i < len(pairs); i += 2 {
		sges = append(sges, queue.SGE{Addr: r.at(pairs[i]), Length: uint32(pairs[i+1]), LKey: r.mr.LKey()})
	}
	r.postSGE(wrid, sges...)
}

func (r *respRig) postSGE(wrid uint64, sges ...queue.SGE) {
	r.t.Helper()
	if r.rq.FreeNow() == 0 {
		r.t.Fatal("receive queue is full")
	}
	slot := r.rq.Slot(0)
	w := queue.RecvWQE{WRID: wrid, NumSGE: uint16(len(sges))}
	for i, e := range sges {
		w.Length += e.Length
		queue.PutRecvSGE(slot, i, e)
	}
	queue.PutRecv(slot, &w)
	r.rq.Publish(1)
}

// arrive hands packets to the queue pair; frames that it does not keep are free
// to be overwritten, and are.
func (r *respRig) arrive(reqs ...respReq) {
	r.t.Helper()
	for _, q := range reqs {
		if v := r.arriveOne(q); v != Release {
			r.t.Fatalf("%v PSN %d: verdict %d, want Release", q.op, q.psn, v)
		}
	}
}

func (r *respRig) arriveKept(q respReq) {
	r.t.Helper()
	if v := r.arriveOne(q); v != Keep {
		r.t.Fatalf("%v PSN %d: verdict %d, want Keep", q.op, q.psn, v)
	}
}

func (r *respRig) arriveOne(q respReq) Verdict {
	r.now++
	p := q.packet()
	r.ref++
	p.Ref = r.ref
	v := r.q.HandlePacket(r.now, p)
	if v == Release {
		for _, s := range p.Segments() {
			clear(s)
		}
		clear(p.BTH)
		clear(p.IP)
	}
	return v
}

// respAnswer is a decoded packet of the responder.
type respAnswer struct {
	Op   wire.Opcode
	PSN  psn.PSN
	Syn  wire.Syndrome
	MSN  uint32
	Orig uint64
	Data string
}

// answers polls until nothing is left and decodes what is sent. The credit code
// of ACKs is left out: see rawAnswers.
func (r *respRig) answers() []respAnswer {
	r.t.Helper()
	out := r.rawAnswers()
	for i := range out {
		if out[i].Syn.Kind() == wire.KindACK {
			out[i].Syn = 0
		}
	}
	return out
}

func (r *respRig) rawAnswers() (out []respAnswer) {
	r.t.Helper()
	for more := true; more; {
		r.tx.Reset(64)
		more = r.q.Poll(r.now, r.tx)
		for i := range r.tx.Intents {
			out = append(out, r.decode(&r.tx.Intents[i]))
		}
	}
	return out
}

func (r *respRig) decode(in *Intent) respAnswer {
	r.t.Helper()
	h := in.Hdr[:in.HdrLen]
	a := respAnswer{Op: wire.Opcode(h[0]), PSN: psn.Of(binary.BigEndian.Uint32(h[8:]))}
	if h[1]&0x40 == 0 || h[8]&0x80 != 0 || binary.BigEndian.Uint16(h[2:]) != 0xFFFF {
		r.t.Errorf("BTH % x: want M=1, A=0, P_Key 0xFFFF", h[:12])
	}
	if got := binary.BigEndian.Uint32(h[4:]); got != 0x22 {
		r.t.Errorf("destination QP %#x, want 0x22", got)
	}
	if pad := int(h[1] >> 4 & 3); (in.Len+pad)%4 != 0 {
		r.t.Errorf("%d bytes of payload with %d of pad", in.Len, pad)
	}
	if r.q.service == wire.XRC {
		if a.Op.Transport() != wire.XRC {
			r.t.Errorf("answer %v of an XRC target", a.Op)
		}
		a.Op = a.Op.Operation()
	}
	if a.Op != wire.ReadRespMid {
		a.Syn, a.MSN = wire.Syndrome(h[12]), binary.BigEndian.Uint32(h[12:])&0xFFFFFF
	}
	if a.Op == wire.AtomicAck {
		a.Orig = binary.BigEndian.Uint64(h[16:])
	}
	data := make([]byte, in.Len)
	if !r.tx.Gather(in, data) {
		r.t.Errorf("payload of %v PSN %d cannot be read", a.Op, a.PSN)
	}
	a.Data = string(data)
	return a
}

func respAck(p psn.PSN, msn uint32) respAnswer {
	return respAnswer{Op: wire.Acknowledge, PSN: p, MSN: msn}
}

func respNak(syn wire.Syndrome, p psn.PSN, msn uint32) respAnswer {
	return respAnswer{Op: wire.Acknowledge, PSN: p, Syn: syn, MSN: msn}
}

func respData(op wire.Opcode, p psn.PSN, msn uint32, data []byte) respAnswer {
	return respAnswer{Op: op, PSN: p, MSN: msn, Data: string(data)}
}

// expect compares what is sent now with want.
func (r *respRig) expect(want ...respAnswer) {
	r.t.Helper()
	if d := cmp.Diff(want, r.answers()); d != "" {
		r.t.Errorf("answers (-want +got):\n%s", d)
	}
}

// completions takes what is in the completion queue, without the fields that
// are the same for all.
func (r *respRig) completions() (out []queue.CQE) {
	r.t.Helper()
	n, ok := r.cq.Avail()
	if !ok {
		r.t.Fatal("completion queue is corrupt")
	}
	for range n {
		var c queue.CQE
		queue.GetCQE(r.cq.Slot(0), &c)
		r.cq.Release(1)
		if c.QPN != 0x11 || c.QPContext != 0xC0FFEE || c.Timestamp < 1_000_000 || c.Timestamp > int64(r.now) {
			r.t.Errorf("completion of QP %#x, context %#x at %d, now is %d", c.QPN, c.QPContext, c.Timestamp, r.now)
		}
		c.QPN, c.QPContext, c.Timestamp = 0, 0, 0
		out = append(out, c)
	}
	return out
}

func (r *respRig) expectCompletions(want ...queue.CQE) {
	r.t.Helper()
	if d := cmp.Diff(want, r.completions()); d != "" {
		r.t.Errorf("completions (-want +got):\n%s", d)
	}
}

func respRecv(wrid uint64, n uint32) queue.CQE {
	return queue.CQE{WRID: wrid, ByteLen: n, Opcode: ibv.WCRecv}
}

func respFailed(wrid uint64, s ibv.WCStatus) queue.CQE {
	return queue.CQE{WRID: wrid, Status: s, Opcode: ibv.WCRecv}
}

func (r *respRig) expectEvents(want ...ibv.EventType) {
	r.t.Helper()
	var got []ibv.EventType
	for _, e := range r.env.Events {
		got = append(got, e.Type)
	}
	r.env.Events = r.env.Events[:0]
	if d := cmp.Diff(want, got); d != "" {
		r.t.Errorf("events (-want +got):\n%s", d)
	}
}

func (r *respRig) expectState(want ibv.QPState) {
	r.t.Helper()
	if got := r.q.State(); got != want {
		r.t.Errorf("state %v, want %v", got, want)
	}
}

func (r *respRig) expectMemory(off int, want []byte) {
	r.t.Helper()
	if got := r.mem[off : off+len(want)]; string(got) != string(want) {
		r.t.Errorf("memory at %d (-want +got):\n%s", off, cmp.Diff(want, got))
	}
}

func (r *respRig) expectCount(c Counter, want uint64) {
	r.t.Helper()
	if got := r.env.Counters[c]; got != want {
		r.t.Errorf("counter %v is %d, want %d", c, got, want)
	}
}
