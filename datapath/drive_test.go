package datapath

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// slow is an acknowledgement time-out of 17 s: no retransmission makes up for a
// wake-up that was lost. stall is far less, and far more than a busy machine
// takes for a round.
const (
	slow  = 22
	stall = 5 * time.Second
)

// write has from write n bytes to the other end and waits for the completion.
func write(from, to *verbstest.End, n int) error {
	begin := time.Now()
	err := from.Post(verbs.SendWR{
		WRID: 9, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{from.MR.SGE(0, n)},
		RemoteAddr: to.MR.Addr(), RKey: to.MR.RKey(),
	})
	if err != nil {
		return err
	}
	if _, err := from.Done(9, verbs.WCRDMAWrite); err != nil {
		return err
	}
	if d := time.Since(begin); d > stall {
		return fmt.Errorf("a write took %v: a wake-up was lost", d)
	}
	return nil
}

// TestWakeBothWait: both programs only sleep, post, and sleep again.
func TestWakeBothWait(t *testing.T) {
	for _, queues := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d queues", queues), func(t *testing.T) {
			r := newRig(t, rigOptions{queues: queues, crossed: true, sleepDeep: true, opts: Options{Poll: PollInterrupt}})
			p := r.pair(verbstest.Options{Timeout: slow})
			rounds := 3000
			if testing.Short() {
				rounds = 500
			}
			for range rounds {
				if err := write(p.A, p.B, 64); err != nil {
					t.Fatal(err)
				}
				if err := write(p.B, p.A, 64); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestWakePeerPollsSeldom: a program polls, then does something else for a
// while, again and again. Its peer is served all the time.
func TestWakePeerPollsSeldom(t *testing.T) {
	r := newRig(t, rigOptions{sleepDeep: true})
	p := r.pair(verbstest.Options{Timeout: slow})
	const pause = 300 * time.Millisecond
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		var wcs [1]verbs.WC
		for {
			p.B.CQ.Poll(wcs[:])
			select {
			case <-stop:
				return
			case <-time.After(pause):
			}
		}
	})
	defer wg.Wait()
	defer close(stop)
	// If only the polls served the peer, a write would take half a pause.
	const writes = 50
	begin := time.Now()
	for range writes {
		if err := write(p.A, p.B, 64); err != nil {
			t.Fatal(err)
		}
	}
	if d := time.Since(begin); d > writes*pause/4 {
		t.Errorf("%d writes to a program that polls every %v took %v", writes, pause, d)
	}
}

// TestWakeAfterPolling: a program polls without a break, stops without a word,
// and is served soon after.
func TestWakeAfterPolling(t *testing.T) {
	r := newRig(t, rigOptions{sleepDeep: true})
	p := r.pair(verbstest.Options{Timeout: slow})
	for range 20 {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					r.cb.Progress()
				}
			}
		})
		for range 5 {
			if err := write(p.A, p.B, 64); err != nil {
				t.Fatal(err)
			}
		}
		close(stop)
		wg.Wait()
		if err := write(p.A, p.B, 64); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWakeSpinOnMemory: a program polls no completion queue, but spins on memory
// that its peer writes and calls Progress.
func TestWakeSpinOnMemory(t *testing.T) {
	r := newRig(t, rigOptions{queues: 2, crossed: true, sleepDeep: true})
	p := r.pair(verbstest.Options{Timeout: slow})
	region := r.b.mrByKey(p.B.MR.LKey())
	for i := range 200 {
		want := byte(i + 1)
		p.A.Buf[7] = want
		var wg sync.WaitGroup
		wg.Go(func() {
			var got [1]byte
			for end := time.Now().Add(stall); got[0] != want; {
				r.cb.Progress()
				region.Read(region.Start()+7, got[:])
				if time.Now().After(end) {
					t.Errorf("round %d: the write was not seen", i)
					return
				}
			}
		})
		if err := write(p.A, p.B, 8); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	}
}

// TestWakeMixed has programs that wait, poll now and then, and call Progress
// share a worker, in random order and with random pauses.
func TestWakeMixed(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := newRig(t, rigOptions{queues: 2, crossed: true, sleepDeep: true, opts: Options{RingSize: 512}})
	var ended atomic.Bool
	var pollers, posters sync.WaitGroup
	for i := range 2 {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		dev := []*verbs.Context{r.ca, r.cb}[i]
		pollers.Go(func() {
			for !ended.Load() {
				for range rnd.IntN(50) {
					dev.Progress()
				}
				time.Sleep(time.Duration(rnd.IntN(2500)) * time.Microsecond)
			}
		})
	}
	rounds := 300
	if testing.Short() {
		rounds = 60
	}
	for i := range 6 {
		p := r.pair(verbstest.Options{Timeout: slow, BufferSize: 1 << 16})
		rnd := rand.New(rand.NewPCG(seed, uint64(10+i)))
		posters.Go(func() {
			from, to := p.A, p.B
			if i%2 == 1 {
				from, to = to, from
			}
			for range rounds {
				if err := write(from, to, 1+rnd.IntN(20_000)); err != nil {
					t.Error(err)
					return
				}
				if rnd.IntN(4) == 0 {
					time.Sleep(time.Duration(rnd.IntN(1500)) * time.Microsecond)
				}
			}
		})
	}
	posters.Wait()
	ended.Store(true)
	pollers.Wait()
	r.checkMemory()
}

// TestWakeForDeadline: nobody polls, the peer is deaf, and the time-outs of the
// queue pair still end the work request.
func TestWakeForDeadline(t *testing.T) {
	r := newRig(t, rigOptions{sleepDeep: true})
	p := r.pair(verbstest.Options{Timeout: 8, Retry: 3}) // 1 ms
	for _, port := range r.ports[1] {
		port.SetDown(true)
	}
	err := p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)},
		RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), stall)
	defer cancel()
	var wcs [1]verbs.WC
	if _, err := p.A.CQ.Wait(ctx, wcs[:]); err != nil {
		t.Fatal(err)
	}
	if wcs[0].Status != verbs.WCRetryExceeded {
		t.Errorf("status %v, want RETRY_EXC_ERR", wcs[0].Status)
	}
}

// TestIdleDeviceDoesNothing: with connections but no traffic no goroutine runs.
func TestIdleDeviceDoesNothing(t *testing.T) {
	r := newRig(t, rigOptions{queues: 2})
	p := r.pair(verbstest.Options{})
	if err := p.Write(100, false); err != nil {
		t.Fatal(err)
	}
	activity := func() uint64 {
		return counterOf(t, r.a, "background_rounds") + counterOf(t, r.b, "background_rounds") +
			counterOf(t, r.a, "background_sleeps") + counterOf(t, r.b, "background_sleeps")
	}
	// Acknowledgement time-outs that were set are looked at once more.
	waitFor(t, "the devices to fall asleep", func() bool {
		before := activity()
		time.Sleep(150 * time.Millisecond)
		return activity() == before
	})
	before := activity()
	time.Sleep(400 * time.Millisecond)
	if after := activity(); after != before {
		t.Errorf("%d rounds and sleeps in 400 ms without traffic", after-before)
	}
}

// TestPollerIsNotDisturbed: while a program polls, background goroutines leave
// the work to it. One goroutine is the program at both ends, so that a busy
// machine stops both at once.
func TestPollerIsNotDisturbed(t *testing.T) {
	if raceEnabled {
		t.Skip("under the race detector polls are too far apart to count as polling")
	}
	r := newRig(t, rigOptions{})
	p := r.pair(verbstest.Options{Timeout: slow})
	stolen := func() uint64 {
		return counterOf(t, r.a, "background_rounds") + counterOf(t, r.b, "background_rounds")
	}
	const warmUp, writes = 2000, 10_000
	var before uint64
	for i := range warmUp + writes {
		if i == warmUp { // the background goroutines have noticed
			before = stolen()
		}
		if err := p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 8)},
			RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}); err != nil {
			t.Fatal(err)
		}
		var wcs [1]verbs.WC
		for end := time.Now().Add(stall); p.A.CQ.Poll(wcs[:]) == 0; {
			r.cb.Progress()
			if time.Now().After(end) {
				t.Fatal("no completion")
			}
		}
	}
	if n := stolen() - before; n > writes/10 {
		t.Errorf("%d rounds of background goroutines in %d writes", n, writes)
	}
}
