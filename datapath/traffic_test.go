package datapath

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath/xsk/xsktest"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// everyOperation moves data by each operation in both directions and compares
// memory.
func everyOperation(p *verbstest.Pair, sizes ...int) error {
	for _, dir := range []*verbstest.Pair{p, {A: p.B, B: p.A, MTU: p.MTU}} {
		for _, n := range sizes {
			for _, op := range []struct {
				name string
				do   func() error
			}{
				{"SEND", func() error { return dir.Send(n, false) }},
				{"SEND with immediate", func() error { return dir.Send(n, true) }},
				{"WRITE", func() error { return dir.Write(n, false) }},
				{"WRITE with immediate", func() error { return dir.Write(n, true) }},
				{"READ", func() error { return dir.Read(n) }},
			} {
				if err := op.do(); err != nil {
					return fmt.Errorf("%s of %d bytes: %w", op.name, n, err)
				}
			}
		}
		if err := dir.Atomics(); err != nil {
			return fmt.Errorf("atomics: %w", err)
		}
	}
	return nil
}

func TestEveryOperation(t *testing.T) {
	for _, tt := range []struct {
		name string
		rig  rigOptions
		mtu  verbs.MTU
	}{
		{"one queue", rigOptions{}, verbs.MTU4096},
		{"MTU of Ethernet", rigOptions{mtu: 1500}, verbs.MTU1024},
		{"frames of 2048 bytes", rigOptions{opts: Options{FrameSize: 2048}}, verbs.MTU4096},
		{"four queues", rigOptions{queues: 4}, verbs.MTU4096},
		{"four queues, crossed", rigOptions{queues: 4, crossed: true}, verbs.MTU4096},
		{"kicks that send one frame", rigOptions{budget: 2}, verbs.MTU4096},
		{"small rings", rigOptions{opts: Options{RingSize: 64}}, verbs.MTU4096},
		{"no spinning", rigOptions{opts: Options{Poll: PollInterrupt}}, verbs.MTU4096},
		{"no background", rigOptions{opts: Options{NoBackground: true}}, verbs.MTU4096},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.rig)
			p := r.pair(verbstest.Options{Inline: 64, Timeout: slow})
			if p.MTU != tt.mtu {
				t.Errorf("path MTU %v, want %v", p.MTU, tt.mtu)
			}
			if tt.rig.opts.NoBackground {
				defer keepDriving(r.ca)()
				defer keepDriving(r.cb)()
			}
			m := p.MTU.Bytes()
			if err := everyOperation(p, 0, 1, 3, 64, m-1, m, m+1, 3*m+5, 70_001); err != nil {
				t.Fatal(err)
			}
			r.checkNoRetry()
			r.checkMemory()
		})
	}
}

// keepDriving is the program of a peer without background goroutine. The function that
// it returns ends it.
func keepDriving(c *verbs.Context) (stop func()) {
	var ended atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !ended.Load() {
			if !c.Progress() {
				time.Sleep(20 * time.Microsecond)
			}
		}
	})
	return func() { ended.Store(true); wg.Wait() }
}

// checkNoRetry checks that nothing was sent again: on a link that loses nothing,
// with time-outs that are never due, only a stall would cause it.
func (r *rig) checkNoRetry() {
	r.t.Helper()
	for _, d := range []*Device{r.a, r.b} {
		if n := counterOf(r.t, d, "completer_retry_err"); n != 0 {
			r.t.Errorf("%s: %d requests were sent again", d.Name(), n)
		}
	}
}

// checkMemory waits until nothing moves, then checks that no frame was lost: all
// are in the pool or the fill ring, all slots are free.
func (r *rig) checkMemory() {
	r.t.Helper()
	for _, d := range []*Device{r.a, r.b} {
		deadline := time.Now().Add(5 * time.Second)
		for {
			bad := d.lostMemory()
			if bad == "" {
				break
			}
			if time.Now().After(deadline) {
				r.t.Errorf("%s: %s", d.Name(), bad)
				break
			}
			d.Progress()
			time.Sleep(time.Millisecond)
		}
		if n := counterOf(r.t, d, "bad_descriptors"); n != 0 {
			r.t.Errorf("%s: %d bad descriptors", d.Name(), n)
		}
	}
}

func (d *Device) lostMemory() string {
	for _, w := range d.workers {
		if w.acquire() != nil {
			return "closed"
		}
		w.reap()
		lent := d.opts.RingSize - w.unfilled
		free, busy, kept := w.rx.Free(), w.tx.busy(), w.kept.kept()
		rejected := w.rx.Rejected()
		w.release(controller)
		switch {
		case kept != 0:
			return fmt.Sprintf("worker %d keeps %d frames", w.id, kept)
		case free+lent != d.share.rxFrames:
			return fmt.Sprintf("worker %d has %d frames and lent %d, of %d", w.id, free, lent, d.share.rxFrames)
		case busy != 0:
			return fmt.Sprintf("worker %d has %d slots in use", w.id, busy)
		case rejected != 0:
			return fmt.Sprintf("worker %d was given %d frames twice", w.id, rejected)
		}
	}
	return ""
}

// TestLossyLink runs every operation over a link that loses and repeats frames.
func TestLossyLink(t *testing.T) {
	for _, queues := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d queues", queues), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			var mu sync.Mutex
			rnd := rand.New(rand.NewPCG(seed, 1))
			r := newRig(t, rigOptions{queues: queues, crossed: true, mtu: 1500, hook: func([]byte) xsktest.Action {
				mu.Lock()
				defer mu.Unlock()
				switch rnd.IntN(50) {
				case 0:
					return xsktest.Drop
				case 1:
					return xsktest.Duplicate
				}
				return xsktest.Deliver
			}})
			p := r.pair(verbstest.Options{Timeout: 9})
			if err := everyOperation(p, 1, 1024, 50_000); err != nil {
				t.Fatal(err)
			}
			r.checkMemory()
		})
	}
}

// TestCorruptingLink runs every operation over a link that changes a byte of
// some frames. Which ones is random: a fixed distance between them can fall into
// step with the repetitions of one READ.
func TestCorruptingLink(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 1))
	r := newRig(t, rigOptions{mtu: 1500, hook: func(frame []byte) xsktest.Action {
		mu.Lock()
		defer mu.Unlock()
		if rnd.IntN(17) == 0 {
			// All but the Ethernet addresses, which nobody looks at.
			frame[12+rnd.IntN(len(frame)-12)] ^= byte(1 << rnd.IntN(8))
		}
		return xsktest.Deliver
	}})
	p := r.pair(verbstest.Options{Timeout: 9})
	if err := everyOperation(p, 1, 1024, 50_000); err != nil {
		t.Fatal(err)
	}
	if counterOf(t, r.a, "icrc_errors")+counterOf(t, r.b, "icrc_errors") == 0 {
		t.Error("no ICRC error was counted")
	}
	r.checkMemory()
}

// TestManyQueuePairs has many queue pairs on several workers move data at once
// to shared completion queues.
func TestManyQueuePairs(t *testing.T) {
	const pairs, rounds, size = 24, 20, 10_000
	r := newRig(t, rigOptions{queues: 4, crossed: true, mtu: 1500})
	var wg sync.WaitGroup
	for i := range pairs {
		p := r.pair(verbstest.Options{BufferSize: 1 << 16, Timeout: slow})
		wg.Go(func() {
			for range rounds {
				if err := p.Write(size, i%2 == 0); err != nil {
					t.Errorf("pair %d: %v", i, err)
					return
				}
				if err := p.Read(size); err != nil {
					t.Errorf("pair %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if counterOf(t, r.a, "handover_pkts") == 0 {
		t.Error("no frame was handed over, although the link is crossed")
	}
	r.checkNoRetry()
	r.checkMemory()
}

// TestLoopback connects queue pairs of one device, on the same and on different
// workers.
func TestLoopback(t *testing.T) {
	for _, queues := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d queues", queues), func(t *testing.T) {
			r := newRig(t, rigOptions{queues: queues})
			p := verbstest.RCPair(t, r.ca, r.ca, verbstest.Options{Timeout: slow})
			if err := everyOperation(p, 0, 5, 4096, 100_000); err != nil {
				t.Fatal(err)
			}
			if counterOf(t, r.a, "loopback_pkts") == 0 {
				t.Error("no packet was looped back")
			}
			if n := counterOf(t, r.a, "xsk_tx_frames"); n != 0 {
				t.Errorf("%d frames left on the wire", n)
			}
			r.checkMemory()
		})
	}
}

// waitFor polls a condition of another goroutine.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for !ok() {
		if ctx.Err() != nil {
			t.Fatalf("%s: not within 10 s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestNothingCanBeKept: when no more frames can be kept, those out of order are
// dropped and sent again.
func TestNothingCanBeKept(t *testing.T) {
	var n atomic.Uint32
	r := newRig(t, rigOptions{mtu: 1500, hook: func([]byte) xsktest.Action {
		if n.Add(1)%20 == 0 {
			return xsktest.Drop
		}
		return xsktest.Deliver
	}})
	p := r.pair(verbstest.Options{Timeout: 9})
	if err := p.Write(200_000, false); err != nil {
		t.Fatal(err)
	}
	if counterOf(t, r.b, "out_of_order_kept") == 0 {
		t.Error("nothing was kept, although frames were lost")
	}
	r.checkMemory()
	full := func(on bool) {
		t.Helper()
		w := r.b.workers[0]
		if err := w.acquire(); err != nil {
			t.Fatal(err)
		}
		if w.kept.free = w.kept.free[:0]; !on {
			w.kept = newKeepTable(w.dev.share.rxFrames, w.dev.keptOf)
		}
		w.release(controller)
	}
	full(true)
	before := counterOf(t, r.b, "out_of_order_kept")
	if err := p.Write(200_000, false); err != nil {
		t.Fatal(err)
	}
	if after := counterOf(t, r.b, "out_of_order_kept"); after != before {
		t.Errorf("%d frames were kept without room", after-before)
	}
	full(false)
	r.checkMemory()
}
