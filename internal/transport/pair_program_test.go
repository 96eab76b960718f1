package transport_test

import (
	"bytes"
	"fmt"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// pairOp is a send work request and what must come of it.
type pairOp struct {
	wqe    queue.SendWQE
	sges   []queue.SGE
	inline []byte
	want   queue.CQE // completion, when it is signaled
	result []span    // where the data of a READ or atomic goes
	data   []byte    // that data
}

// pairRecv is a receive work request and what must come of it.
type pairRecv struct {
	wqe    queue.RecvWQE
	sges   []queue.SGE
	used   bool // a message of the peer's program comes to it
	want   queue.CQE
	buffer []span
	data   []byte // of the message; empty for a WRITE with immediate
}

// pairProgram is what one side posts, and how far it has come.
type pairProgram struct {
	ops            []pairOp
	recvs          []pairRecv
	posted, done   int // of ops; done counts completions, and what they imply
	rposted, rdone int // of recvs
	failed         ibv.WCStatus
	rfailed        bool
	hold           int // keep this many of ops back for now
}

func (p *pairProgram) left() bool { return p.posted < len(p.ops)-p.hold || p.rposted < len(p.recvs) }

func (p *pairProgram) String() string {
	return fmt.Sprintf("sends %d of %d posted, %d done; receives %d of %d posted, %d done; %v",
		p.posted, len(p.ops), p.done, p.rposted, len(p.recvs), p.rdone, p.failed)
}

// finished reports whether all that can complete has. When the peer has given
// up, its messages do not come any more.
func (h *pairHost) finished() bool {
	p := &h.prog
	sent := p.done == len(p.ops)-p.hold || p.failed != ibv.WCSuccess
	used := 0
	for _, r := range p.recvs {
		if r.used {
			used++
		}
	}
	return sent && (p.rdone >= used || h.peer.prog.failed != ibv.WCSuccess)
}

// postSends posts up to n work requests while the queue has room.
func (h *pairHost) postSends(n int) {
	p := &h.prog
	for ; n > 0 && p.posted < len(p.ops)-p.hold && h.sq.FreeNow() > 0; n-- {
		op := &p.ops[p.posted]
		slot := h.sq.Slot(0)
		queue.PutSend(slot, &op.wqe)
		for i, s := range op.sges {
			queue.PutSendSGE(slot, i, s)
		}
		if op.inline != nil {
			copy(queue.SendInline(slot), op.inline)
		}
		h.note("posts %d: %v %v, %d B to %#x", op.wqe.WRID, op.wqe.Opcode, op.wqe.Flags, op.wqe.Length, op.wqe.RemoteAddr)
		h.sq.Publish(1)
		p.posted++
	}
}

func (h *pairHost) postRecvs(n int) {
	p := &h.prog
	for ; n > 0 && p.rposted < len(p.recvs) && h.rq.FreeNow() > 0; n-- {
		r := &p.recvs[p.rposted]
		slot := h.rq.Slot(0)
		queue.PutRecv(slot, &r.wqe)
		for i, s := range r.sges {
			queue.PutRecvSGE(slot, i, s)
		}
		h.rq.Publish(1)
		p.rposted++
	}
}

// collect takes completions and compares each with what the model says.
func (h *pairHost) collect() {
	for _, side := range []struct {
		cq    *queue.Consumer
		qpn   uint32
		check func(*queue.CQE)
	}{{h.scq, h.qpn(), h.sendDone}, {h.rcq, h.taker().QPN(), h.recvDone}} {
		n, ok := side.cq.Avail()
		if !ok {
			h.w.failf("%v: completion queue is corrupt", h.end)
		}
		for range n {
			var c queue.CQE
			queue.GetCQE(side.cq.Slot(0), &c)
			side.cq.Release(1)
			if c.QPN != side.qpn || c.QPContext != uint64(h.end)+40 || c.Timestamp != int64(h.w.now) {
				h.w.failf("%v: completion %+v", h.end, c)
			}
			c.QPN, c.QPContext, c.Timestamp = 0, 0, 0
			h.note("completes %d: %v %v", c.WRID, c.Opcode, c.Status)
			side.check(&c)
		}
	}
}

// sendDone checks a completion of the send queue. Those of unsignaled requests
// are missing, so it may be that of any request up to the next signaled one when
// it is an error.
func (h *pairHost) sendDone(c *queue.CQE) {
	p := &h.prog
	if c.Status == ibv.WCSuccess {
		for p.done < p.posted && p.ops[p.done].wqe.Flags&ibv.SendSignaled == 0 {
			p.done++
		}
	} else {
		for p.done < p.posted && p.ops[p.done].wqe.WRID != c.WRID && p.ops[p.done].wqe.Flags&ibv.SendSignaled == 0 && p.failed == ibv.WCSuccess {
			p.done++
		}
	}
	if p.done >= p.posted {
		h.w.failf("%v: completion %d of nothing that was posted", h.end, c.WRID)
	}
	op := &p.ops[p.done]
	p.done++
	switch {
	case c.Status == ibv.WCSuccess && p.failed == ibv.WCSuccess:
		if d := cmp.Diff(op.want, *c); d != "" {
			h.w.failf("%v: completion (-want +got):\n%s", h.end, d)
		}
		h.checkSpans(op.result, op.data, "result of %v %d", op.wqe.Opcode, c.WRID)
		if h.flow != nil {
			h.flow.sent()
		}
	case c.WRID != op.wqe.WRID:
		h.w.failf("%v: completion of %d in place of %d", h.end, c.WRID, op.wqe.WRID)
	case p.failed == ibv.WCSuccess:
		p.failed = c.Status
	case c.Status != ibv.WCWRFlushErr:
		h.w.failf("%v: %v after %v", h.end, c.Status, p.failed)
	}
}

func (h *pairHost) recvDone(c *queue.CQE) {
	p := &h.prog
	if p.rdone >= p.rposted {
		h.w.failf("%v: receive completion %d of nothing that was posted", h.end, c.WRID)
	}
	r := &p.recvs[p.rdone]
	p.rdone++
	switch {
	case c.WRID != r.wqe.WRID:
		h.w.failf("%v: receive completion of %d in place of %d", h.end, c.WRID, r.wqe.WRID)
	case h.flow != nil:
		h.flow.received(c, r)
	case c.Status == ibv.WCSuccess && !p.rfailed:
		if !r.used {
			h.w.failf("%v: a message too many: %+v", h.end, c)
		}
		if d := cmp.Diff(r.want, *c); d != "" {
			h.w.failf("%v: receive completion (-want +got):\n%s", h.end, d)
		}
		h.checkSpans(r.buffer, r.data, "message %d", c.WRID)
	case c.Status == ibv.WCWRFlushErr:
		p.rfailed = true
	case c.Status == r.want.Status && !p.rfailed:
		p.rfailed = true
	default:
		h.w.failf("%v: receive %d: %v", h.end, c.WRID, c.Status)
	}
}

// checkSpans compares the bytes of spans, in order, with data.
func (h *pairHost) checkSpans(at []span, data []byte, format string, args ...any) {
	for _, s := range at {
		n := min(s.n, len(data))
		if got := h.mem.bytes[s.off : s.off+n]; !bytes.Equal(got, data[:n]) {
			h.w.failf("%v: %s is wrong in the %d bytes at %#x", h.end, fmt.Sprintf(format, args...), n, s.off)
		}
		data = data[n:]
	}
	if len(data) != 0 {
		h.w.failf("%v: %d bytes of the model have no place", h.end, len(data))
	}
}
