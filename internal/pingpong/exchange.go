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
// acknowledgement of it, if there are any, may have to be sent again.
const lingering = 2 * time.Millisecond

// exchange sends and receives all messages. A side sends again when its last
// message has completed and one has arrived.
func (s *side) exchange(ctx context.Context) error {
	var sent, received int
	posted := s.RxDepth // receives outstanding
	pending := recvID   // what has to happen before the next message
	if s.Server != "" {
		if err := s.post(); err != nil {
			return err
		}
		pending = recvID | sendID
	}
	var wcs [2]verbs.WC
	for sent < s.Iters || received < s.Iters {
		n, err := s.completions(ctx, wcs[:])
		if err != nil {
			return err
		}
		for i := range wcs[:n] {
			wc := &wcs[i]
			if err := failure(wc); err != nil {
				return err
			}
			switch wc.WRID {
			case sendID:
				sent++
			default:
				received++
				if posted--; posted <= 1 {
					if err := s.postReceives(s.RxDepth - posted); err != nil {
						return err
					}
					posted = s.RxDepth
				}
			}
			pending &^= int(wc.WRID)
			if sent < s.Iters && pending == 0 {
				if err := s.post(); err != nil {
					return err
				}
				pending = recvID | sendID
			}
		}
	}
	return nil
}

// failure is the error that the C programs print of a completion, nil of a good
// one.
func failure(wc *verbs.WC) error {
	if err := wc.Err(); err != nil {
		return fmt.Errorf("failed status %s (%d) for wr_id %d: %w", wc.Status, wc.Status, wc.WRID, err)
	}
	return nil
}

// completions waits for at least one completion, asleep or polling.
func (s *side) completions(ctx context.Context, wcs []verbs.WC) (int, error) {
	if s.Events {
		return s.cq.Wait(ctx, wcs)
	}
	for empty := 1; ; empty++ {
		if n := s.cq.Poll(wcs); n > 0 {
			return n, nil
		}
		if empty%64 == 0 {
			runtime.Gosched()
		}
		if empty%1024 != 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		// To who polls, a daemon that has ended looks like one that has nothing to tell.
		if err := s.cq.Err(); err != nil {
			return 0, err
		}
	}
}

func (s *side) post() error {
	wr := verbs.SendWR{
		WRID: sendID, Opcode: verbs.OpSend, Flags: verbs.SendSignaled,
		SGList: []verbs.SGE{s.mr.SGE(s.front(), s.Size)},
	}
	if s.ah != nil {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = s.ah, s.peer.QPN, qkey
	}
	return s.qp.PostSend(&wr)
}

func (s *side) postReceives(n int) error {
	wr := verbs.RecvWR{WRID: recvID, SGList: []verbs.SGE{s.mr.SGE(0, s.front()+s.Size)}}
	for range n {
		if err := s.qp.PostRecv(&wr); err != nil {
			return err
		}
	}
	return nil
}

// settle drives the device for a moment after the last message.
func (s *side) settle() {
	for end := time.Now().Add(lingering); time.Now().Before(end); {
		if !s.dev.Progress() {
			runtime.Gosched()
		}
	}
}
