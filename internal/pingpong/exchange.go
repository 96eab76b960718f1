package pingpong

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// Work request numbers of the C programs, which their error messages show.
const (
	recvID = 1
	sendID = 2
)

// lingering is how long a side goes on answering after its last message: the
// acknowledgement of it may have to be sent again.
const lingering = 2 * time.Millisecond

// exchange sends and receives all messages. A side sends again when its last
// message has been acknowledged and one has arrived.
func (r *rc) exchange(ctx context.Context) error {
	var sent, received int
	posted := r.RxDepth // receives outstanding
	pending := recvID   // what has to happen before the next message
	if r.Server != "" {
		if err := r.post(); err != nil {
			return err
		}
		pending = recvID | sendID
	}
	var wcs [2]verbs.WC
	for sent < r.Iters || received < r.Iters {
		n, err := r.completions(ctx, wcs[:])
		if err != nil {
			return err
		}
		for i := range wcs[:n] {
			wc := &wcs[i]
			if err := wc.Err(); err != nil {
				return fmt.Errorf("failed status %s (%d) for wr_id %d: %w", wc.Status, wc.Status, wc.WRID, err)
			}
			switch wc.WRID {
			case sendID:
				sent++
			default:
				received++
				if posted--; posted <= 1 {
					if err := r.postReceives(r.RxDepth - posted); err != nil {
						return err
					}
					posted = r.RxDepth
				}
			}
			pending &^= int(wc.WRID)
			if sent < r.Iters && pending == 0 {
				if err := r.post(); err != nil {
					return err
				}
				pending = recvID | sendID
			}
		}
	}
	return nil
}

// completions waits for at least one completion, asleep or polling.
func (r *rc) completions(ctx context.Context, wcs []verbs.WC) (int, error) {
	if r.Events {
		return r.cq.Wait(ctx, wcs)
	}
	for empty := 1; ; empty++ {
		if n := r.cq.Poll(wcs); n > 0 {
			return n, nil
		}
		if empty%64 == 0 {
			runtime.Gosched()
		}
		if empty%1024 == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
}

func (r *rc) post() error {
	return r.qp.PostSend(&verbs.SendWR{
		WRID: sendID, Opcode: verbs.OpSend, Flags: verbs.SendSignaled,
		SGList: []verbs.SGE{r.mr.SGE(0, r.Size)},
	})
}

func (r *rc) postReceives(n int) error {
	wr := verbs.RecvWR{WRID: recvID, SGList: []verbs.SGE{r.mr.SGE(0, r.Size)}}
	for range n {
		if err := r.qp.PostRecv(&wr); err != nil {
			return err
		}
	}
	return nil
}

// settle drives the device for a moment after the last message.
func (r *rc) settle() {
	for end := time.Now().Add(lingering); time.Now().Before(end); {
		if !r.dev.Progress() {
			runtime.Gosched()
		}
	}
}
