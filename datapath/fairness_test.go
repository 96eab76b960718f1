package datapath

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// fill posts WRITEs of n bytes to every queue pair of a crowd until no more fit.
func fill(t testing.TB, c *verbstest.Crowd, n int) {
	t.Helper()
	for _, q := range c.A.QPs {
		for range q.Cap().MaxSendWR {
			must(t, q.PostSend(&verbs.SendWR{
				Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{c.A.MR.SGE(0, n)}, RemoteAddr: c.B.MR.Addr(), RKey: c.B.MR.RKey(),
			}))
		}
	}
}

// TestTurnsOfClients: a client with one queue pair gets as many turns as one with a
// hundred.
func TestTurnsOfClients(t *testing.T) {
	r := newRig(t, rigOptions{opts: Options{NoBackground: true, RingSize: 2048}})
	many, manyCtx := client(t, r.a, &ClientConfig{Name: "many"})
	one, oneCtx := client(t, r.a, &ClientConfig{Name: "one"})
	connect := func(ctx *verbs.Context, n, wr int) *verbstest.Crowd {
		c, err := verbstest.NewCrowd(ctx, r.cb, verbstest.CrowdOptions{Cap: verbs.QPCap{MaxSendWR: wr}, Limit: n, Timeout: slow})
		must(t, err)
		must(t, c.Connect(n))
		return c
	}
	crowd, alone := connect(manyCtx, 100, 64), connect(oneCtx, 1, 1024)
	w := r.a.workers[0]
	must(t, w.acquire()) // nothing is sent before all is posted
	fill(t, crowd, 8)
	fill(t, alone, 8)
	w.release(controller)
	sent := func(c *Client) uint64 { return c.lanes[0].sent.packets }
	a0, b0 := sent(many), sent(one)
	for sent(many)-a0+sent(one)-b0 < 1000 {
		r.a.Progress()
		r.b.Progress()
	}
	a, b := sent(many)-a0, sent(one)-b0
	if t.Logf("%d packets of a hundred queue pairs, %d of one", a, b); b < a/2 || a < b/2 {
		t.Error("the clients have not had the same share")
	}
}

// TestSilentPeersOfAnother: a client whose peers do not answer has its own part of
// what may be in flight unanswered, and no more: the others lose nothing.
func TestSilentPeersOfAnother(t *testing.T) {
	r := newRig(t, rigOptions{opts: Options{NoBackground: true}})
	_, deadCtx := client(t, r.a, &ClientConfig{Name: "dead"})
	_, aliveCtx := client(t, r.a, &ClientConfig{Name: "alive"})
	crowd := func(ctx *verbs.Context, n int) *verbstest.Crowd {
		c, err := verbstest.NewCrowd(ctx, r.cb, verbstest.CrowdOptions{Cap: verbs.QPCap{MaxSendWR: 128}, Limit: n, Timeout: 31})
		must(t, err)
		must(t, c.Connect(n))
		return c
	}
	dead := crowd(deadCtx, 20)
	for _, qp := range dead.B.QPs {
		must(t, qp.Destroy())
	}
	fill(t, dead, 8)
	alive := crowd(aliveCtx, 1)
	ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
	defer cancel()
	before := counterOf(t, r.a, "flight_forgotten")
	begin := time.Now()
	must(t, alive.Run(ctx, verbs.OpRDMAWrite, 0, 1, 2000, 64, r.driveB))
	if took, forgotten := time.Since(begin), counterOf(t, r.a, "flight_forgotten")-before; took > budgetPatience && forgotten > uint64(took/budgetPatience) {
		t.Errorf("the requests took %v, in which the others' were forgotten %d times", took, forgotten)
	}
	for _, l := range r.a.workers[0].lanes {
		if l.flight.InFlight() > r.a.workers[0].budget {
			t.Errorf("%d packets of one client in flight, %d of all are allowed", l.flight.InFlight(), r.a.workers[0].budget)
		}
	}
}

// TestRateOfClient: a client with a bound sends no faster, and others as before.
func TestRateOfClient(t *testing.T) {
	r := newRig(t, rigOptions{})
	_, slowCtx := client(t, r.a, &ClientConfig{Name: "slow", Limits: Limits{Messages: 2000}})
	p, err := verbstest.NewPair(verbs.RC, slowCtx, r.cb, verbstest.Options{Timeout: slow})
	must(t, err)
	other := r.pair(verbstest.Options{})
	const messages, attempts = 100, 5
	var free int64
	for range attempts { // the other's goroutine may be kept from running
		if free = besideBound(t, p, other, messages); free >= messages {
			return
		}
	}
	t.Errorf("a client without a bound has sent %d messages in the time of %d", free, messages)
}

// besideBound sends messages through p, whose client may send 2000 a second, and returns
// how many went through other meanwhile.
func besideBound(t *testing.T, p, other *verbstest.Pair, messages int) int64 {
	t.Helper()
	var n atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := write(other.A, other.B, 8); err != nil {
					t.Error(err)
					return
				}
				n.Add(1)
			}
		}
	})
	begin := time.Now()
	for range messages {
		must(t, write(p.A, p.B, 8))
	}
	took := time.Since(begin)
	close(stop)
	wg.Wait()
	// The first 20 are the burst of 10 ms.
	if least := time.Duration(messages-21) * time.Second / 2000; took < least {
		t.Errorf("%d messages took %v, at 2000 a second at least %v", messages, took, least)
	}
	return n.Load()
}
