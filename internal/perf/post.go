package perf

import (
	"context"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// request is the work request of one message on the i-th queue pair.
func (e *End) request(i int) verbs.SendWR {
	wr := verbs.SendWR{Opcode: e.p.Test.opcode()}
	switch e.p.Test.Op {
	case Send, Write:
		if e.p.Inline > 0 && e.size <= e.p.Inline {
			wr.Flags |= verbs.SendInline
		}
		wr.SGList = e.sourceSGE
	default:
		wr.SGList = e.targetSGE
	}
	if e.size == 0 {
		wr.SGList = nil
	}
	if e.p.Test.Op != Send {
		// WRITE goes to the second half of the peer's buffer, READ reads its first;
		// atomics work on the second, which this end's READs do not change.
		wr.RemoteAddr, wr.RKey = e.peer[i].Addr, e.peer[i].RKey
		if e.p.Test.Op != Read {
			wr.RemoteAddr += uint64(e.slot)
		}
		wr.CompareAdd = 1
	}
	return wr
}

// poll takes completions once and counts them; without any it is idle.
func (e *End) poll(ctx context.Context) error {
	n := e.cq.Poll(e.wcs)
	if n == 0 {
		return e.idle(ctx)
	}
	e.pace.reset()
	return e.count(n)
}

// count counts the first n of the completions taken.
func (e *End) count(n int) error {
	for i := range e.wcs[:n] {
		if err := e.completed(&e.wcs[i]); err != nil {
			return err
		}
	}
	return nil
}

// completed counts a completion. That of a send stands for all requests before
// it on the same queue pair; a receive is posted again.
func (e *End) completed(wc *verbs.WC) error {
	if err := wc.Err(); err != nil {
		return err
	}
	if wc.Opcode != verbs.WCRecv {
		e.done[wc.QPContext] = int64(wc.WRID) + 1
		return nil
	}
	e.arrived++
	return e.qps[wc.QPContext].PostRecv(&e.recvs[0])
}
