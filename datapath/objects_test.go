package datapath

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// initOf is what a queue pair is made of in the tests below.
func initOf(t *testing.T, d *Device) *verbs.ProviderQPInit {
	t.Helper()
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.CreateCQ(16)
	if err != nil {
		t.Fatal(err)
	}
	return &verbs.ProviderQPInit{
		PD: pd, Type: ibv.QPTypeRC, SendCQ: c, RecvCQ: c,
		Cap: ibv.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1},
	}
}

func TestCreateQPRefuses(t *testing.T) {
	r := newRig(t, rigOptions{})
	foreign, err := r.b.CreateCQ(1)
	if err != nil {
		t.Fatal(err)
	}
	gone, err := r.a.CreateCQ(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Destroy(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(*verbs.ProviderQPInit)
		want   error
	}{
		{"no such type", func(i *verbs.ProviderQPInit) { i.Type = 0 }, ErrUnsupported},
		{"no completion queue", func(i *verbs.ProviderQPInit) { i.SendCQ = nil }, ErrInvalid},
		{"completion queue of another device", func(i *verbs.ProviderQPInit) { i.RecvCQ = foreign }, ErrInvalid},
		{"completion queue that is gone", func(i *verbs.ProviderQPInit) { i.RecvCQ = gone }, ErrInvalid},
		{"unknown domain", func(i *verbs.ProviderQPInit) { i.PD += 77 }, ErrInvalid},
		{"too many requests", func(i *verbs.ProviderQPInit) { i.Cap.MaxSendWR = ibv.MaxQPWR + 1 }, ErrInvalid},
		{"too many entries", func(i *verbs.ProviderQPInit) { i.Cap.MaxRecvSGE = ibv.MaxSGE + 1 }, ErrInvalid},
		{"negative", func(i *verbs.ProviderQPInit) { i.Cap.MaxInline = -1 }, ErrInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			init := initOf(t, r.a)
			pd := init.PD
			tt.change(init)
			if _, err := r.a.CreateQP(init); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if err := r.a.DeallocPD(pd); err != nil {
				t.Errorf("the domain is not free: %v", err)
			}
		})
	}
	if n := len(r.steered[0].qpns); n != 0 {
		t.Errorf("the XDP program was told of %d queue pairs", n)
	}
}

// TestMostEntries: 32 scatter/gather entries are possible, one more is not.
func TestMostEntries(t *testing.T) {
	conformance.Rule(t, "7.3-2")
	r := newRig(t, rigOptions{})
	for _, tt := range []struct {
		send, recv int
		want       error
	}{
		{32, 32, nil}, {33, 1, ErrInvalid}, {1, 33, ErrInvalid},
	} {
		init := initOf(t, r.a)
		init.Cap.MaxSendSGE, init.Cap.MaxRecvSGE = tt.send, tt.recv
		if _, err := r.a.CreateQP(init); !errors.Is(err, tt.want) {
			t.Errorf("%d to send and %d to receive: error %v, want %v", tt.send, tt.recv, err, tt.want)
		}
	}
}

func TestCreateQPSteerFails(t *testing.T) {
	r := newRig(t, rigOptions{})
	init := initOf(t, r.a)
	r.steered[0].err = errors.New("map full")
	if _, err := r.a.CreateQP(init); !errors.Is(err, r.steered[0].err) {
		t.Errorf("error %v", err)
	}
	if err := errors.Join(init.SendCQ.Destroy(), r.a.DeallocPD(init.PD)); err != nil {
		t.Errorf("left behind: %v", err)
	}
}

func TestDestroyOrder(t *testing.T) {
	r := newRig(t, rigOptions{queues: 2})
	init := initOf(t, r.a)
	q, err := r.a.CreateQP(init)
	if err != nil {
		t.Fatal(err)
	}
	if !r.steered[0].qpns[q.QPN()] {
		t.Error("the XDP program does not know the queue pair")
	}
	if err := init.SendCQ.Destroy(); !errors.Is(err, ErrBusy) {
		t.Errorf("destroy of a completion queue in use: %v", err)
	}
	if err := r.a.DeallocPD(init.PD); !errors.Is(err, ErrBusy) {
		t.Errorf("deallocate of a domain in use: %v", err)
	}
	for range 2 { // the second is no error
		if err := q.Destroy(); err != nil {
			t.Error(err)
		}
	}
	q.Doorbell() // late, as from another goroutine
	if r.steered[0].qpns[q.QPN()] {
		t.Error("the XDP program still knows the queue pair")
	}
	if err := errors.Join(init.SendCQ.Destroy(), r.a.DeallocPD(init.PD)); err != nil {
		t.Error(err)
	}
	if err := r.a.DeallocPD(init.PD); !errors.Is(err, ErrInvalid) {
		t.Errorf("deallocate twice: %v", err)
	}
	for _, w := range r.a.workers {
		if w.qps != 0 {
			t.Errorf("worker %d has %d queue pairs", w.id, w.qps)
		}
	}
}

func TestQueuePairsAreSpreadOverWorkers(t *testing.T) {
	r := newRig(t, rigOptions{queues: 3})
	init := initOf(t, r.a)
	for range 9 {
		if _, err := r.a.CreateQP(init); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range r.a.workers {
		if w.qps != 3 {
			t.Errorf("worker %d has %d queue pairs", w.id, w.qps)
		}
	}
	if got := init.SendCQ.(*cq).workers.Load(); got != 7 {
		t.Errorf("workers of the completion queue: %b", got)
	}
	for q := range r.a.qps {
		if err := q.Destroy(); err != nil {
			t.Error(err)
		}
	}
	if got := init.SendCQ.(*cq).workers.Load(); got != 0 {
		t.Errorf("workers of the completion queue: %b", got)
	}
}

func TestBuffers(t *testing.T) {
	r := newRig(t, rigOptions{})
	b, err := r.a.AllocBuffer(3 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) != 3<<20 || memory.AddressOf(b)%4096 != 0 || !bytes.Equal(b[:100], make([]byte, 100)) {
		t.Errorf("%d bytes at %#x", len(b), memory.AddressOf(b))
	}
	b[0], b[len(b)-1] = 1, 2
	if err := r.a.FreeBuffer(b[4096:]); !errors.Is(err, ErrInvalid) {
		t.Errorf("free of a part: %v", err)
	}
	if err := r.a.FreeBuffer(b); err != nil {
		t.Error(err)
	}
	if err := r.a.FreeBuffer(nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("free of nothing: %v", err)
	}
	if _, err := r.a.AllocBuffer(0); !errors.Is(err, ErrInvalid) {
		t.Errorf("no bytes: %v", err)
	}
}

// TestDeregisterWhileWritten: when DeregisterMemory returns, no write of a peer
// reaches the memory any more.
func TestDeregisterWhileWritten(t *testing.T) {
	for _, queues := range []int{1, 2} {
		r := newRig(t, rigOptions{queues: queues, crossed: true})
		for range 20 {
			p := r.pair(verbstest.Options{BufferSize: 1 << 16})
			var wg sync.WaitGroup
			wg.Go(func() {
				for i := 0; ; i++ {
					p.A.Buf[0] = byte(i)
					err := p.A.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, 1<<15)},
						RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()})
					if err != nil {
						return
					}
					if _, err := p.A.Done(1, verbs.WCRDMAWrite); err != nil {
						return // the key is invalid, as it should be
					}
				}
			})
			time.Sleep(time.Millisecond)
			if err := p.B.MR.Deregister(); err != nil {
				t.Fatal(err)
			}
			before := bytes.Clone(p.B.Buf)
			wg.Wait()
			if !bytes.Equal(before, p.B.Buf) {
				t.Fatal("memory changed after it was deregistered")
			}
		}
	}
}

func TestDeregisterUnknown(t *testing.T) {
	r := newRig(t, rigOptions{})
	if err := r.a.DeregisterMemory(verbs.ProviderMR{Handle: 99}); !errors.Is(err, ErrInvalid) {
		t.Errorf("error %v", err)
	}
}

// vanishing is memory of another process that goes away after some reads.
type vanishing struct{ reads int }

func (v *vanishing) ReadAt(dst []byte, _ uint64) error {
	if v.reads--; v.reads < 0 {
		return errors.New("gone")
	}
	clear(dst)
	return nil
}

func (v *vanishing) WriteAt([]byte, uint64) error { return errors.New("gone") }

// TestPayloadGoesAway: memory that cannot be read as its packet is laid out fails
// the request that names it, locally or at the peer that asked for it, and
// nothing else.
func TestPayloadGoesAway(t *testing.T) {
	const va, n = 1 << 40, 6 * 4096
	for _, tt := range []struct {
		name  string
		reads int
		op    verbs.Opcode
		want  verbs.WCStatus
	}{
		{"WRITE, at once", 0, verbs.OpRDMAWrite, verbs.WCLocalProtection},
		{"WRITE, midway", 3, verbs.OpRDMAWrite, verbs.WCLocalProtection},
		{"READ, at once", 0, verbs.OpRDMARead, verbs.WCRemoteAccess},
		{"READ, midway", 3, verbs.OpRDMARead, verbs.WCRemoteAccess},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			p := r.pair(verbstest.Options{})
			dev, qp, peer := r.a, p.A.QP, p.B
			if tt.op == verbs.OpRDMARead {
				dev, qp, peer = r.b, p.B.QP, p.A
			}
			q := dev.table.get(qp.Num())
			region, err := dev.mem.RegisterIndirect(q.cfg.PD, va, n, &vanishing{reads: tt.reads}, ibv.AccessRemoteRead)
			if err != nil {
				t.Fatal(err)
			}
			wr := verbs.SendWR{WRID: 5, Opcode: tt.op, Flags: verbs.SendSignaled,
				SGList: []verbs.SGE{{Addr: va, Length: n, LKey: region.LKey()}}, RemoteAddr: peer.MR.Addr(), RKey: peer.MR.RKey()}
			if tt.op == verbs.OpRDMARead {
				wr.SGList = []verbs.SGE{p.A.MR.SGE(0, n)}
				wr.RemoteAddr, wr.RKey = va, region.RKey()
			}
			if err := p.A.QP.PostSend(&wr); err != nil {
				t.Fatal(err)
			}
			wc, err := p.A.Next()
			if err != nil {
				t.Fatal(err)
			}
			if wc.WRID != 5 || wc.Status != tt.want {
				t.Errorf("completion %+v, want status %v", wc, tt.want)
			}
			r.checkMemory()
		})
	}
}

func TestClosedDevice(t *testing.T) {
	r := newRig(t, rigOptions{queues: 2})
	p := r.pair(verbstest.Options{})
	c := p.A.CQ
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.WaitEvent(ctx); !errors.Is(err, ErrClosed) {
			t.Errorf("a wait ended with %v", err)
		}
	})
	wg.Go(func() {
		if _, err := r.a.NextEvent(ctx); !errors.Is(err, ErrClosed) {
			t.Errorf("a wait for an event ended with %v", err)
		}
	})
	time.Sleep(20 * time.Millisecond)
	q := r.a.table.get(p.A.QP.Num())
	for range 2 {
		if err := r.a.Close(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if r.a.Progress() {
		t.Error("a closed device makes progress")
	}
	q.Doorbell()
	for name, call := range map[string]func() error{
		"query device": func() error { _, err := r.a.QueryDevice(); return err },
		"query port":   func() error { _, err := r.a.QueryPort(); return err },
		"gids":         func() error { _, err := r.a.GIDs(); return err },
		"alloc pd":     func() error { _, err := r.a.AllocPD(); return err },
		"create cq":    func() error { _, err := r.a.CreateCQ(1); return err },
		"buffer":       func() error { _, err := r.a.AllocBuffer(1); return err },
		"register":     func() error { _, err := r.a.RegisterMemory(1, make([]byte, 8), 0); return err },
		"create qp":    func() error { _, err := r.a.CreateQP(sameInit(q)); return err },
		"counters":     func() error { _, err := r.a.Counters(); return err },
		"query qp":     func() error { _, err := q.Query(); return err },
		"modify qp":    func() error { return q.Modify(t.Context(), &ibv.QPAttr{State: ibv.QPStateErr}, ibv.QPAttrState) },
	} {
		if err := call(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func sameInit(q *qp) *verbs.ProviderQPInit {
	c := q.cfg.SendCQ.Owner.(*cq)
	return &verbs.ProviderQPInit{PD: uint32(q.cfg.PD), Type: ibv.QPTypeRC, SendCQ: c, RecvCQ: c, Cap: q.cfg.Cap}
}

// TestErrorStateFlushes: what is posted to a queue pair in ERR comes back at
// once, from both queues, with nobody polling the device.
func TestErrorStateFlushes(t *testing.T) {
	r := newRig(t, rigOptions{sleepDeep: true})
	p := r.pair(verbstest.Options{})
	if err := p.A.Recv(1, 0, 8); err != nil {
		t.Fatal(err)
	}
	if err := p.A.QP.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, ibv.QPAttrState); err != nil {
		t.Fatal(err)
	}
	flushed := func(id uint64) {
		t.Helper()
		wc, err := p.A.Next()
		if err != nil || wc.WRID != id || wc.Status != verbs.WCFlushed {
			t.Errorf("completion %+v, %v; want %d flushed", wc, err, id)
		}
	}
	flushed(1)
	for id := uint64(10); id < 30; id += 2 {
		if err := p.A.Recv(id, 0, 8); err != nil {
			t.Fatal(err)
		}
		flushed(id)
		if err := p.A.Post(verbs.SendWR{WRID: id + 1, Opcode: verbs.OpSend}); err != nil {
			t.Fatal(err)
		}
		flushed(id + 1)
	}
}

func TestDeviceAttributes(t *testing.T) {
	r := newRig(t, rigOptions{queues: 2, mtu: 1500})
	dev, err := r.a.QueryDevice()
	if err != nil {
		t.Fatal(err)
	}
	if dev.Name != "mem0" || dev.NodeGUID != ibv.EUI64(macA) || dev.NumWorkers != 2 || dev.XDPMode != "memory" || dev.MaxQP < 1<<16 {
		t.Errorf("%+v", dev)
	}
	port, err := r.a.QueryPort()
	if err != nil {
		t.Fatal(err)
	}
	if port.State != verbs.PortActive || port.ActiveMTU != verbs.MTU1024 || port.LinkMTU != 1500 || !bytes.Equal(port.MAC, macA[:]) {
		t.Errorf("%+v", port)
	}
	list, err := r.a.Counters()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range list {
		if c.Name == "" || c.Name == "unknown" || strings.ToLower(c.Name) != c.Name || names[c.Name] {
			t.Errorf("counter %q", c.Name)
		}
		names[c.Name] = true
	}
	for _, n := range []string{"sent_pkts", "icrc_errors", "drop_unknown_qpn", "xsk_rx_ring_full", "xdp_redirect"} {
		if !names[n] {
			t.Errorf("no counter %q", n)
		}
	}
	if list[0].Name != "sent_pkts" {
		t.Errorf("the first counter is %q", list[0].Name)
	}
}
