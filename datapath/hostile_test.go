package datapath

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// ringBytes is the memory of a remote client's ring, by what it knows of its layout.
func (r *remote) ringBytes(ring *queue.Ring) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 0; i < len(r.views); i += 2 {
		if o, err := queue.Open(r.views[i]); err == nil && o.Arm() == ring.Arm() {
			return r.views[i+1]
		}
	}
	r.t.Fatal("no such ring")
	return nil
}

// Offsets of the indices in a ring's memory.
const (
	producerAt = 128
	consumerAt = 256
)

// wants waits for an event of c and returns what else has come before it.
func wants(t *testing.T, c *Client, want ibv.EventType) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
	defer cancel()
	for {
		e, err := c.NextEvent(ctx)
		if err != nil {
			t.Fatalf("no event %v: %v", want, err)
		}
		if e.Type == want {
			return
		}
	}
}

// TestCorruptedRings: an index that cannot be is an error of what it belongs to, and
// of nobody else.
func TestCorruptedRings(t *testing.T) {
	for _, tt := range []struct {
		name string
		ring func(*remote) *queue.Ring // whose memory is written to
		at   int
		look func(*remote, *verbstest.Pair) error // what has the device look
		want ibv.EventType
	}{
		{"send queue", func(r *remote) *queue.Ring { return r.only().qp.SQ() }, producerAt,
			func(r *remote, p *verbstest.Pair) error { r.only().Doorbell(); return nil }, ibv.EventQPFatal},
		{"receive queue", func(r *remote) *queue.Ring { return r.only().qp.RQ() }, producerAt,
			func(r *remote, p *verbstest.Pair) error { return p.B.Post(verbs.SendWR{Opcode: verbs.OpSend}) }, ibv.EventQPFatal},
		{"completion queue", func(r *remote) *queue.Ring { return r.onlyCQ().cq.Ring() }, consumerAt,
			func(r *remote, p *verbstest.Pair) error { // once more than it is known to hold
				for range p.A.CQ.Size() + 1 {
					if err := p.A.Post(verbs.SendWR{Opcode: verbs.OpRDMAWrite}); err != nil {
						return err
					}
				}
				return nil
			}, ibv.EventCQErr},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			hostile, ctx := newRemote(t, r.a, ClientConfig{Name: "hostile"})
			honest, other := newRemote(t, r.a, ClientConfig{Name: "honest"})
			cq, err := ctx.CreateCQ(4)
			must(t, err)
			p, err := verbstest.NewPair(verbs.RC, ctx, r.cb, verbstest.Options{CQ: [2]*verbs.CQ{cq, nil}})
			must(t, err)
			good, err := verbstest.NewPair(verbs.RC, other, r.cb, verbstest.Options{})
			must(t, err)
			mem := hostile.ringBytes(tt.ring(hostile))
			for i := range 4 {
				mem[tt.at+i] = 0x77
			}
			must(t, tt.look(hostile, p))
			wants(t, hostile.Client, tt.want)
			must(t, good.Every(100, 5000))
			if e, ok := honest.events.main.take(); ok && e.Type != ibv.EventCommEst {
				t.Errorf("the other client has event %v", e.Type)
			}
		})
	}
}

// only is the client's queue pair.
func (r *remote) only() *remoteQP {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.qps {
		return q
	}
	return nil
}

func (r *remote) onlyCQ() *remoteCQ {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.cqs {
		return c
	}
	return nil
}

// TestMemoryThatVanishes: a client takes the pages of a region away while requests go
// to and from it. The region is gone, and what uses it fails; all else goes on.
func TestMemoryThatVanishes(t *testing.T) {
	for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
		t.Run(op.String(), func(t *testing.T) {
			r := newRig(t, rigOptions{})
			c, ctx := client(t, r.a, &ClientConfig{Name: "one"})
			p, err := verbstest.NewPair(verbs.RC, ctx, r.cb, verbstest.Options{})
			must(t, err)
			f, err := os.Create(filepath.Join(t.TempDir(), "pages"))
			must(t, err)
			defer f.Close()
			must(t, f.Truncate(8192))
			mem, err := unix.Mmap(int(f.Fd()), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			must(t, err)
			defer unmap(t, mem)
			pd := c.anyPD()
			mr, err := c.RegisterShared(pd, 0x10000, mem, ibv.AccessLocalWrite)
			must(t, err)
			post := func(id uint64) error {
				return p.A.Post(verbs.SendWR{WRID: id, Opcode: op, SGList: []verbs.SGE{{Addr: mr.Addr, Length: 8192, LKey: mr.LKey}},
					RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()})
			}
			must(t, post(1))
			if wc, err := p.A.Next(); err != nil || wc.Err() != nil {
				t.Fatalf("with all pages there: %+v, %v", wc, err)
			}
			must(t, f.Truncate(0))
			must(t, post(2))
			if wc, err := p.A.Next(); err != nil || wc.Status != verbs.WCLocalProtection {
				t.Fatalf("without them: %+v, %v", wc, err)
			}
			if c.memoryOf(mr).Valid() {
				t.Error("the region is still there")
			}
			if _, fault := r.a.mem.Check(mr.LKey, memory.PD(pd), 0, mr.Addr, 1); fault != memory.FaultKey {
				t.Errorf("its key is %v", fault)
			}
			must(t, c.DeregisterMemory(mr))
			again, err := verbstest.NewPair(verbs.RC, ctx, r.cb, verbstest.Options{})
			must(t, err)
			must(t, again.Every(100))
		})
	}
}

// anyPD is a protection domain of the client.
func (c *Client) anyPD() uint32 {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	for pd, m := range c.dev.pds {
		if m.owner == c {
			return pd
		}
	}
	return 0
}

// TestFlushTakesTurns: a client with thousands of requests to flush does not hold the
// worker: of a round the others wait for a few of its queue pairs at most.
func TestFlushTakesTurns(t *testing.T) {
	r := newRig(t, rigOptions{opts: Options{NoBackground: true}})
	_, ctx := client(t, r.a, &ClientConfig{Name: "flushes"})
	const depth, n = 4096, 8
	w := r.a.workers[0]
	pairs := make([]*verbstest.Pair, n)
	for i := range pairs {
		p, err := verbstest.NewPair(verbs.RC, ctx, r.cb, verbstest.Options{Depth: depth, BufferSize: 4096})
		must(t, err)
		must(t, p.A.QP.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.AttrState))
		pairs[i] = p
	}
	must(t, w.acquire())
	for _, p := range pairs {
		for range depth {
			must(t, p.A.Post(verbs.SendWR{Opcode: verbs.OpRDMAWrite}))
		}
	}
	left := func() (sum int) {
		for q := range r.a.qps {
			n, _ := queue.ResumeProducer(q.cfg.SQ).Pending()
			sum += n
		}
		return sum
	}
	if left() != depth*n {
		t.Fatalf("%d requests are posted, want %d", left(), depth*n)
	}
	for rounds := 0; left() != 0; rounds++ {
		before := left()
		w.transmit(clock())
		w.finish()
		if done := before - left(); done > depth {
			t.Fatalf("a round has flushed %d requests", done)
		}
		if rounds > depth {
			t.Fatalf("%d are left for ever", left())
		}
	}
	w.release(controller)
	for _, p := range pairs {
		if wc, err := p.A.Next(); err != nil || wc.Status != verbs.WCFlushed {
			t.Errorf("%+v, %v", wc, err)
		}
	}
}
