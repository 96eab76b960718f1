package datapath

import (
	"errors"
	"fmt"
	"testing"

	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestRemoteDoesEverything: every operation between clients that share memory with
// their devices and nothing else.
func TestRemoteDoesEverything(t *testing.T) {
	for _, queues := range []int{1, 2} {
		for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
			t.Run(fmt.Sprintf("%v over %d queues", typ, queues), func(t *testing.T) {
				r := newRig(t, rigOptions{queues: queues, crossed: true})
				_, a := newRemote(t, r.a, ClientConfig{Name: "a"})
				_, b := newRemote(t, r.b, ClientConfig{Name: "b"})
				p, err := verbstest.NewPair(typ, a, b, verbstest.Options{BufferSize: 1 << 18})
				if err != nil {
					t.Fatal(err)
				}
				sizes := []int{0, 1, 7, 4096, 100_000}
				if typ == verbs.UD {
					sizes = []int{0, 1, 4096}
				}
				if err := errors.Join(p.Every(sizes...), p.Reverse().Every(sizes...)); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestRemoteWakes: programs post and sleep, workers sleep until somebody wakes them;
// no doorbell is lost.
func TestRemoteWakes(t *testing.T) {
	for _, queues := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d queues", queues), func(t *testing.T) {
			r := newRig(t, rigOptions{queues: queues, crossed: true, sleepDeep: true, opts: Options{Poll: PollInterrupt}})
			ra, a := newRemote(t, r.a, ClientConfig{Name: "a"})
			_, b := newRemote(t, r.b, ClientConfig{Name: "b"})
			p, err := verbstest.NewPair(verbs.RC, a, b, verbstest.Options{Timeout: slow})
			if err != nil {
				t.Fatal(err)
			}
			rounds := 1000
			if testing.Short() {
				rounds = 300
			}
			for range rounds {
				if err := errors.Join(write(p.A, p.B, 64), write(p.B, p.A, 64)); err != nil {
					t.Fatal(err)
				}
			}
			if ra.written == 0 {
				t.Error("no worker was ever woken")
			}
			t.Logf("%d writes to event counters for %d requests", ra.written, rounds)
		})
	}
}

// TestRemoteFlush: requests and receives that are posted in ERR are flushed, whichever
// of the two queues they come to.
func TestRemoteFlush(t *testing.T) {
	r := newRig(t, rigOptions{sleepDeep: true})
	_, a := newRemote(t, r.a, ClientConfig{Name: "a"})
	p, err := verbstest.NewPair(verbs.RC, a, r.cb, verbstest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, post := range []func() error{
		func() error { return p.A.QP.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.AttrState) },
		func() error { return p.A.Recv(1, 0, 8) },
		func() error { return p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpSend}) },
		func() error { return p.A.Recv(1, 0, 8) },
	} {
		if err := post(); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if wc, err := p.A.Next(); err != nil || wc.WRID != 1 || wc.Status != verbs.WCFlushed {
			t.Fatalf("%+v, %v", wc, err)
		}
	}
}

// TestRemoteDoesNotAllocate: neither end of a doorbell, nor memory that may go away.
func TestRemoteDoesNotAllocate(t *testing.T) {
	r := newRig(t, rigOptions{opts: Options{NoBackground: true}})
	_, a := newRemote(t, r.a, ClientConfig{Name: "a", Limits: Limits{Messages: 1e9, BytesPerSecond: 1e12}})
	_, b := newRemote(t, r.b, ClientConfig{Name: "b"})
	p, err := verbstest.NewPair(verbs.RC, a, b, verbstest.Options{Timeout: slow})
	must(t, err)
	wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{p.A.MR.SGE(0, 4096)},
		RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}
	var wcs [1]verbs.WC
	round := func() {
		if err := p.A.QP.PostSend(&wr); err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			r.a.Progress()
			r.b.Progress()
			if p.A.CQ.Poll(wcs[:]) == 1 {
				return
			}
		}
		t.Fatal("no completion")
	}
	round()
	if n := testing.AllocsPerRun(200, round); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
