package integration_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestPollsOnceASecond has thousands of SENDs sent to a program that looks at its
// completion queue once a second. They must be taken, and acknowledged, long
// before it looks again: who rarely polls is served by the background goroutine.
func TestPollsOnceASecond(t *testing.T) {
	const messages, size = 4000, 64
	r := newRig(t, netns.PairOptions{}, nil)
	p := r.pair(t, verbstest.Options{Depth: 4096, BufferSize: messages * size})
	verbstest.Fill(p.A.Buf, 1)
	for i := range messages {
		must(t, p.B.Recv(uint64(i), i*size, size))
	}
	for round := range 2 { // the second time the program has just taken much
		wcs := make([]verbs.WC, 2*messages)
		if n := p.B.CQ.Poll(wcs); n != 0 {
			t.Fatalf("round %d begins with %d completions", round, n)
		}
		next := time.After(time.Second)
		for i := range messages {
			must(t, p.A.Post(verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpSend, SGList: []verbs.SGE{p.A.MR.SGE(i*size, size)}}))
		}
		for i := range messages {
			if _, err := p.A.Done(uint64(i), verbs.WCSend); err != nil {
				t.Fatalf("round %d, message %d: %v", round, i, err)
			}
		}
		select {
		case <-next:
			t.Errorf("round %d: the messages were not all acknowledged when the program looked again", round)
		default:
			<-next
		}
		if n := p.B.CQ.Poll(wcs); n != messages {
			t.Fatalf("round %d: the program finds %d completions, want %d", round, n, messages)
		}
		for i, wc := range wcs[:messages] {
			if wc.WRID != uint64(i) || wc.Status != verbs.WCSuccess || wc.ByteLen != size {
				t.Fatalf("round %d, completion %d: %+v", round, i, wc)
			}
			must(t, p.B.Recv(uint64(i), i*size, size))
		}
		if string(p.A.Buf) != string(p.B.Buf) {
			t.Fatalf("round %d: memory differs", round)
		}
	}
}

// TestWaysToWait plays ping-pong with a program that waits in each of the ways
// there are. Each round must end: no wake-up may be lost.
func TestWaysToWait(t *testing.T) {
	r := newRig(t, netns.PairOptions{}, nil)
	for _, tt := range []struct {
		name   string
		rounds int
		wait   func(e *verbstest.End, round byte) error // for the SEND and the WRITE of a round
	}{
		{"spins on memory, calls nothing", 30, spin(func(*verbstest.End) {})},
		{"spins on memory, yields", 100, spin(func(*verbstest.End) { runtime.Gosched() })},
		{"spins on memory, calls Progress", 500, spin(func(e *verbstest.End) { e.Dev.Progress() })},
		{"polls", 500, pollForOne},
		{"waits", 500, waitForOne},
		{"asks for events", 500, waitForEvent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := r.pair(t, verbstest.Options{BufferSize: 64})
			rounds := soak(tt.rounds, 10*tt.rounds)
			for i := range rounds {
				// What the program answers with is there before it is asked.
				must(t, p.A.Recv(uint64(i), 32, 8))
				must(t, p.B.Recv(uint64(i), 32, 8))
				round := byte(i%255) + 1
				p.A.Buf[0] = round
				var wg sync.WaitGroup
				var err error
				wg.Go(func() {
					if err = tt.wait(p.B, round); err == nil {
						err = p.B.QP.PostSend(&verbs.SendWR{Opcode: verbs.OpSend, SGList: []verbs.SGE{p.B.MR.SGE(0, 8)}})
					}
				})
				must(t, p.A.QP.PostSend(&verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}, RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}))
				must(t, p.A.QP.PostSend(&verbs.SendWR{Opcode: verbs.OpSend, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)}}))
				_, answer := p.A.Done(uint64(i), verbs.WCRecv)
				wg.Wait()
				if err != nil || answer != nil {
					t.Fatalf("round %d of %d: the program: %v; its peer: %v", i, rounds, err, answer)
				}
				if p.A.Buf[32] != round {
					t.Fatalf("round %d: the answer is %d, want %d", i, p.A.Buf[32], round)
				}
				drainCQ(p.B.CQ)
			}
		})
	}
}

// drainCQ takes what completions there are.
func drainCQ(cq *verbs.CQ) {
	var wcs [16]verbs.WC
	for cq.Poll(wcs[:]) > 0 {
	}
}

// spin waits for the WRITE of a round by looking at memory.
func spin(between func(*verbstest.End)) func(*verbstest.End, byte) error {
	return func(e *verbstest.End, round byte) error {
		for start, looks := time.Now(), 1; byteAt(e.Buf, 0) != round; looks++ {
			between(e)
			if looks%4096 == 0 && time.Since(start) > verbstest.Patience {
				return fmt.Errorf("nothing written within %v", verbstest.Patience)
			}
		}
		return nil
	}
}

// pollForOne polls for the SEND of a round.
func pollForOne(e *verbstest.End, _ byte) error {
	var wcs [1]verbs.WC
	for start := time.Now(); e.CQ.Poll(wcs[:]) == 0; {
		if time.Since(start) > verbstest.Patience {
			return fmt.Errorf("no completion within %v", verbstest.Patience)
		}
	}
	return wcs[0].Err()
}

func waitForOne(e *verbstest.End, _ byte) error {
	wc, err := e.Next()
	if err == nil {
		err = wc.Err()
	}
	return err
}

// waitForEvent uses the calls of libibverbs: ask, look once more, sleep.
func waitForEvent(e *verbstest.End, _ byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), verbstest.Patience)
	defer cancel()
	var wcs [1]verbs.WC
	for {
		e.CQ.ReqNotify(false)
		if e.CQ.Poll(wcs[:]) != 0 {
			return wcs[0].Err()
		}
		if err := e.CQ.WaitEvent(ctx); err != nil {
			return err
		}
	}
}

// TestIdle measures what two devices with connected queue pairs cost that have
// nothing to do, one of them with a program that waits.
func TestIdle(t *testing.T) {
	const span = 2 * time.Second
	r := newRig(t, netns.PairOptions{Queues: 4}, nil)
	p := r.pair(t, verbstest.Options{})
	for range 7 {
		r.pair(t, verbstest.Options{})
	}
	must(t, p.Every(1, 100_000))
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var woken atomic.Bool
	wg.Go(func() {
		var wcs [1]verbs.WC
		if n, _ := p.B.CQ.Wait(ctx, wcs[:]); n != 0 {
			woken.Store(true)
		}
	})
	time.Sleep(200 * time.Millisecond) // the last traffic is looked after for a while
	// The runtime has work of its own now and then: one span of three must do.
	used := span
	for attempt := 0; attempt < 3 && used > span/100; attempt++ {
		before := cpuTime(t)
		time.Sleep(span)
		used = cpuTime(t) - before
		t.Logf("%v of CPU in %v", used, span)
	}
	cancel()
	wg.Wait()
	if used > span/100 {
		t.Errorf("%v of CPU in %v, want under 1 %%", used, span)
	}
	if woken.Load() {
		t.Error("the waiting program was given a completion of nothing")
	}
}

// cpuTime is the time that the process has run, in user mode and in the kernel.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
