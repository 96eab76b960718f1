package transport_test

import (
	"bytes"
	"net/netip"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

const (
	simQPN   = 0x100 // of a host's first queue pair
	simDepth = 64    // work requests of a queue
)

// flowConfig is a flow of messages from one queue pair to another.
type flowConfig struct {
	op      ibv.WROpcode
	size    int // bytes of a message
	count   int // messages; 0: without an end
	mtu     ibv.MTU
	timeout uint8
	slots   int // messages that have memory of their own
	tos     uint8
	dcqcn   *DCQCN
}

// simQP is one end of a flow.
type simQP struct {
	h    *simHost
	qp   *QP
	path wire.Path
	peer int // host
	cfg  flowConfig

	mem      []byte
	region   *memory.Region
	other    *simQP
	sq, rq   *queue.Producer
	scq, rcq *queue.Consumer

	sends  bool // this end posts the messages
	wants  bool // something was posted since the last Poll
	posted int
	done   int       // messages completed
	last   mono.Time // when the last one was
	stall  time.Duration
	bad    ibv.WCStatus
}

// addFlow connects two hosts by a pair of queue pairs; from posts the messages.
func (s *netSim) addFlow(from, to *simHost, c flowConfig) *simQP {
	a, b := from.addQP(c), to.addQP(c)
	a.connect(b)
	b.connect(a)
	a.sends = true
	a.other, b.other = b, a
	if c.op == ibv.WRRDMARead {
		fillSlots(b.mem, c.size)
	} else {
		fillSlots(a.mem, c.size)
	}
	b.collect()
	a.collect()
	return a
}

// fillSlots gives each message bytes of its own.
func fillSlots(mem []byte, size int) {
	for i := range mem {
		mem[i] = byte(i ^ i>>8*31 ^ i/size*7)
	}
}

func (h *simHost) addQP(c flowConfig) *simQP {
	q := &simQP{h: h, cfg: c, last: simBegin}
	q.mem = alignedTo8(c.size * c.slots)
	var err error
	q.region, err = h.mem.Register(1, memory.AddressOf(q.mem), q.mem,
		ibv.AccessLocalWrite|ibv.AccessRemoteRead|ibv.AccessRemoteWrite)
	if err != nil {
		h.sim.Fatal(err)
	}
	ring := func(n, elem int) *queue.Ring {
		r, err := queue.New(n, elem)
		if err != nil {
			h.sim.Fatal(err)
		}
		return r
	}
	sq, rq := ring(simDepth, queue.SendElemSize(1, 0)), ring(simDepth, queue.RecvElemSize(1))
	scq, rcq := ring(2*simDepth, queue.CQESize), ring(2*simDepth, queue.CQESize)
	q.sq, q.rq, q.scq, q.rcq = queue.NewProducer(sq), queue.NewProducer(rq), queue.NewConsumer(scq), queue.NewConsumer(rcq)
	q.qp = NewQP(h.env, Config{
		QPN: simQPN + uint32(len(h.qps)), Type: ibv.QPTypeRC, PD: 1, SendCQ: NewCQ(scq), RecvCQ: NewCQ(rcq), SQ: sq, RQ: rq, SigAll: true, DCQCN: c.dcqcn,
		Cap: ibv.QPCap{MaxSendWR: simDepth, MaxRecvWR: simDepth, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	h.qps = append(h.qps, q)
	return q
}

// gid is the host's address.
func (h *simHost) gid() ibv.GID {
	return ibv.GIDOf(netip.AddrFrom4([4]byte{10, 0, 0, byte(h.num + 1)}))
}

func (q *simQP) connect(to *simQP) {
	q.peer = to.h.num
	self, peer := q.h.gid(), to.h.gid()
	err := q.path.Set(&wire.PathFields{SrcGID: self, DstGID: peer, UDPSrcPort: 0xc123, TOS: q.cfg.tos})
	if err != nil {
		q.h.sim.Fatal(err)
	}
	attr := ibv.QPAttr{
		AccessFlags: ibv.AccessRemoteRead | ibv.AccessRemoteWrite, Port: 1, PathMTU: q.cfg.mtu, DestQPN: to.qp.QPN(),
		MaxRDAtomic: 16, MaxDestRDAtomic: 16, MinRNRTimer: 1, Timeout: q.cfg.timeout, RetryCnt: 7, RNRRetry: 7,
		AV: ibv.AddressVector{DGID: peer},
	}
	masks := [...]ibv.AttrMask{
		ibv.QPAttrPKeyIndex | ibv.QPAttrPort | ibv.QPAttrAccessFlags,
		ibv.QPAttrAV | ibv.QPAttrPathMTU | ibv.QPAttrDestQPN | ibv.QPAttrRQPSN | ibv.QPAttrMaxDestRDAtomic | ibv.QPAttrMinRNRTimer,
		ibv.QPAttrTimeout | ibv.QPAttrRetryCnt | ibv.QPAttrRNRRetry | ibv.QPAttrSQPSN | ibv.QPAttrMaxQPRDAtomic,
	}
	for i, mask := range masks {
		attr.State = ibv.QPStateInit + ibv.QPState(i)
		if err := q.qp.Modify(q.h.sim.now, &attr, mask|ibv.QPAttrState, self, peer); err != nil {
			q.h.sim.Fatal(err)
		}
	}
}

// collect takes completions and posts what there is room for.
func (q *simQP) collect() {
	n, _ := q.scq.Avail()
	for range n {
		var c queue.CQE
		queue.GetCQE(q.scq.Slot(0), &c)
		q.scq.Release(1)
		if c.Status != ibv.WCSuccess && q.bad == ibv.WCSuccess {
			q.bad = c.Status
		}
		q.progress()
	}
	n, _ = q.rcq.Avail()
	q.rcq.Release(n)
	for q.cfg.op == ibv.WRSend && !q.sends && q.rq.FreeNow() > 0 {
		slot := q.rq.Slot(0)
		queue.PutRecv(slot, &queue.RecvWQE{NumSGE: 1, Length: uint32(q.cfg.size)})
		queue.PutRecvSGE(slot, 0, q.sge())
		q.rq.Publish(1)
		q.posted++
	}
	for q.sends && (q.cfg.count == 0 || q.posted < q.cfg.count) && q.sq.FreeNow() > 0 {
		q.post()
	}
}

// progress notes a completed message, and how long nothing had completed.
func (q *simQP) progress() {
	q.done++
	q.stall = max(q.stall, q.h.sim.now.Sub(q.last))
	q.last = q.h.sim.now
}

// sge is the memory of the next message.
func (q *simQP) sge() queue.SGE {
	at := q.posted % q.cfg.slots * q.cfg.size
	return queue.SGE{Addr: q.region.Start() + uint64(at), Length: uint32(q.cfg.size), LKey: q.region.LKey()}
}

func (q *simQP) post() {
	slot := q.sq.Slot(0)
	at := q.posted % q.cfg.slots * q.cfg.size
	queue.PutSend(slot, &queue.SendWQE{
		WRID: uint64(q.posted), Opcode: q.cfg.op, NumSGE: 1, Length: uint32(q.cfg.size),
		RemoteAddr: q.other.region.Start() + uint64(at), RKey: q.other.region.RKey(),
	})
	queue.PutSendSGE(slot, 0, q.sge())
	q.sq.Publish(1)
	q.posted++
	q.wants = true
}

// finished reports whether all messages have completed.
func (q *simQP) finished() bool { return q.done >= q.cfg.count || q.bad != ibv.WCSuccess }

// same reports whether the memory of both ends is the same.
func (q *simQP) same() bool { return bytes.Equal(q.mem, q.other.mem) }
