package transport

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// A Poll flushes a part of what is posted in ERR and says that there is more; sends
// come before receives, and each completes once.
func TestFlushInParts(t *testing.T) {
	const posted = 3*flushBatch + 10
	reqEach(t, func(c *reqConfig) { c.wr, c.cqe = 1024, 4096 }, func(r *reqRig) {
		r.qp.fail(r.now)
		n := min(posted, r.places())
		for range n {
			r.post(queue.SendWQE{Opcode: ibv.WRSend})
		}
		first := r.id - uint64(n) + 1
		for done, polls := 0, 1; done < n; polls++ {
			r.tx.Reset(64)
			more := r.qp.Poll(r.now, r.tx)
			got, ok := r.cq.Avail()
			want := min(flushBatch, n-done)
			if !ok || got != want || more != (done+got < n) {
				r.Fatalf("poll %d: %d completions, %v, more %v; want %d", polls, got, ok, more, want)
			}
			for i := range got {
				var c queue.CQE
				queue.GetCQE(r.cq.Slot(i), &c)
				if c.WRID != first+uint64(done+i) || c.Status != ibv.WCWRFlushErr {
					r.Fatalf("completion %d: %+v, want %d", done+i, c, first+uint64(done+i))
				}
			}
			r.cq.Release(got)
			done += got
		}
	})
}

// A Poll executes a part of the operations on keys that are posted.
func TestOperateInParts(t *testing.T) {
	keyEach(t, func(c *reqConfig) { c.wr = 256 }, func(k *keyRig) {
		const n = 2*operateBatch + 1
		for tag := k.w1.Key() + 1; tag <= k.w1.Key()+n; tag++ { // each another than the one before
			k.bind(k.w1, tag&0xff, 0)
		}
		for left := n; left > 0; left -= operateBatch {
			k.tx.Reset(64)
			more := k.qp.Poll(k.now, k.tx)
			got, _ := k.cq.Avail()
			if want := min(left, operateBatch); got != want || more != (left >= operateBatch) {
				k.Fatalf("%d completions, more %v; want %d of %d", got, more, want, left)
			}
			k.cq.Release(got)
		}
	})
}
