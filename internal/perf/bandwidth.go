package perf

import (
	"context"
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// Bandwidth sends messages on all queue pairs, as many as are outstanding at
// most, and measures how fast they complete. Both ends may run it at the same
// time.
func (e *End) Bandwidth(ctx context.Context) (Bandwidth, error) {
	r := &bandwidthRun{End: e, limit: int64(e.p.Iters)}
	r.base = append(r.base, e.posted...)
	r.wrs = make([]verbs.SendWR, e.p.PostList)
	if err := r.run(ctx); err != nil {
		return Bandwidth{}, err
	}
	total := r.marks[len(r.marks)-1].done
	return rate(e.size, r.marks, max(total/10, int64(2*e.p.TxDepth))), nil
}

// maxMarks bounds the memory that a run takes for its marks.
const maxMarks = 1 << 20

// bandwidthRun is the state of one measurement.
type bandwidthRun struct {
	*End
	limit int64 // messages of each queue pair; not used with a duration
	base  []int64
	wrs   []verbs.SendWR
	marks []mark

	expired bool // the time of a run with a duration is over
}

func (r *bandwidthRun) run(ctx context.Context) error {
	r.pace.reset()
	start := time.Now()
	r.marks = append(make([]mark, 0, 1<<12), mark{})
	for {
		for i := range r.qps {
			for r.room(i) {
				if err := r.post(i); err != nil {
					return err
				}
			}
		}
		before := r.count()
		if err := r.poll(ctx); err != nil {
			return err
		}
		done := r.count()
		if done == before {
			continue
		}
		now := time.Since(start)
		r.mark(now, done)
		r.expired = r.p.Duration > 0 && now >= r.p.Duration
		if r.finished() {
			return nil
		}
	}
}

// room reports whether the i-th queue pair takes another list of requests now.
func (r *bandwidthRun) room(i int) bool {
	sent := r.posted[i] - r.base[i]
	if r.posted[i]-r.done[i]+int64(r.p.PostList) > int64(r.p.TxDepth) {
		return false
	}
	if r.p.Duration > 0 {
		// After the end, on to the next request that generates a completion, so that
		// nothing is left whose end nobody sees.
		return !r.expired || r.posted[i] > r.signaled[i]
	}
	return sent < r.limit
}

// post posts one list of requests on the i-th queue pair.
func (r *bandwidthRun) post(i int) error {
	n := int64(r.p.PostList)
	if r.p.Duration == 0 {
		n = min(n, r.limit-(r.posted[i]-r.base[i]))
	}
	for k := range r.wrs[:n] {
		wr := &r.wrs[k]
		*wr = r.request(i)
		seq := r.posted[i] + int64(k)
		wr.WRID = uint64(seq)
		sent := seq - r.base[i] + 1
		last := sent == r.limit
		if r.p.Duration > 0 {
			last = r.expired && int64(k) == n-1
		}
		if last || sent%int64(r.p.CQMod) == 0 {
			wr.Flags |= verbs.SendSignaled
			r.signaled[i] = seq + 1
		}
	}
	posted, err := r.qps[i].PostSendBatch(r.wrs[:n])
	r.posted[i] += int64(posted)
	return err
}

// count is how many messages of this run have completed.
func (r *bandwidthRun) count() int64 {
	var n int64
	for i := range r.qps {
		n += r.done[i] - min(r.base[i], r.done[i])
	}
	return n
}

func (r *bandwidthRun) mark(at time.Duration, done int64) {
	m := mark{at, done}
	if len(r.marks) < maxMarks {
		r.marks = append(r.marks, m)
		return
	}
	r.marks[len(r.marks)-1] = m
}

// finished reports whether everything that was to be sent has completed.
func (r *bandwidthRun) finished() bool {
	if r.p.Duration > 0 && !r.expired {
		return false
	}
	for i := range r.qps {
		if r.p.Duration == 0 && r.done[i]-r.base[i] < r.limit {
			return false
		}
		if r.done[i] < r.posted[i] {
			return false
		}
	}
	return true
}
