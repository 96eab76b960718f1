package perf

import (
	"context"
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// errorRounds is how many empty rounds pass between two looks at a completion
// queue from which nothing but errors is expected.
const errorRounds = 256

// Prepare readies the end for messages of size bytes. Both ends do so before
// either of them runs.
func (e *End) Prepare(size int) {
	e.size = size
	e.sourceSGE = []verbs.SGE{e.mr.SGE(0, size)}
	e.targetSGE = []verbs.SGE{e.mr.SGE(e.slot, size)}
	if e.p.Test.Op == Write && size > 0 {
		// Whatever larger messages left there must not look like an arrival.
		e.target()[size-1] = byte(e.rounds)
	}
}

// source and target are the message to send and the place for one that arrives.
func (e *End) source() []byte { return e.mr.Bytes()[:e.size] }
func (e *End) target() []byte { return e.mr.Bytes()[e.slot : e.slot+e.size] }

// Latency exchanges n messages and returns a sample for each but the first, in
// nanoseconds: half a round trip in tests where the ends send in turns, a whole
// one for READ and atomics, which only the first end calls this for. First is
// the end that sends first. Samples are appended to dst.
func (e *End) Latency(ctx context.Context, n int, first bool, dst []int64) ([]int64, error) {
	round, halves := e.requestRound, int64(1)
	if e.p.Test.pingPong() {
		round, halves = e.answerRound, 2
		if first {
			round = e.askRound
		}
	}
	e.pace.reset()
	start := time.Now()
	var last time.Duration
	for i := range n {
		if err := round(ctx); err != nil {
			return dst, err
		}
		now := time.Since(start)
		// The first round includes the time in which the other end got going.
		if i > 0 {
			dst = append(dst, int64(now-last)/halves)
		}
		last = now
	}
	return dst, e.drain(ctx)
}

func (e *End) askRound(ctx context.Context) error {
	e.rounds++
	if err := e.postRound(ctx); err != nil {
		return err
	}
	return e.awaitMessage(ctx)
}

func (e *End) answerRound(ctx context.Context) error {
	e.rounds++
	if err := e.awaitMessage(ctx); err != nil {
		return err
	}
	return e.postRound(ctx)
}

// requestRound is one READ or atomic, which completes with its answer.
func (e *End) requestRound(ctx context.Context) error {
	e.rounds++
	if err := e.postRound(ctx); err != nil {
		return err
	}
	return e.drain(ctx)
}

// postRound posts the message of this round.
func (e *End) postRound(ctx context.Context) error {
	for e.posted[0]-e.done[0] >= int64(e.p.TxDepth) {
		if err := e.poll(ctx); err != nil {
			return err
		}
	}
	if e.p.Test.Op == Write {
		e.source()[e.size-1] = byte(e.rounds)
	}
	wr := e.request(0)
	wr.WRID = uint64(e.posted[0])
	if !e.p.Test.pingPong() || e.posted[0]%int64(e.p.CQMod) == 0 {
		wr.Flags |= verbs.SendSignaled
		e.signaled[0] = e.posted[0] + 1
	}
	if err := e.qps[0].PostSend(&wr); err != nil {
		return err
	}
	e.posted[0]++
	return nil
}

// awaitMessage returns when the peer's message of this round has arrived.
func (e *End) awaitMessage(ctx context.Context) error {
	if e.p.Test.Op == Send {
		for e.arrived < e.rounds {
			if err := e.poll(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	target := e.target()
	for empty := 0; loadLast(target) != byte(e.rounds); {
		if e.dev.Progress() {
			continue
		}
		if empty++; empty%errorRounds == 0 {
			if err := e.poll(ctx); err != nil {
				return err
			}
		}
		if err := e.idle(ctx); err != nil {
			return err
		}
	}
	e.pace.reset()
	return nil
}

// drain waits until every request that was to generate a completion has.
func (e *End) drain(ctx context.Context) error {
	for i := range e.qps {
		for e.done[i] < e.signaled[i] {
			if err := e.poll(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
