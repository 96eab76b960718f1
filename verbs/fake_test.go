package verbs_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// fakeDevice completes every send work request with success as soon as somebody
// drives it. It keeps what it was told, so that tests see what verbs hands on.
type fakeDevice struct {
	mu      sync.Mutex
	keys    uint32
	regions map[uint64][]byte
	pds     int
	cqs     int
	qps     []*fakeQP
	buffers int
	closed  bool
	events  chan verbs.ProviderEvent
	gids    []verbs.GIDEntry
	srqs    []*fakeSRQ
	xrcds   map[uint32]verbs.XRCDInitAttr
	ahs     map[uint32]ibv.AddressVector
	lastAH  uint32

	resolveErr error

	reregs []verbs.ProviderRereg
	advice []ibv.Advice
	refuse error // what reregistering and advising answer

	aliases int   // memory windows and fast regions
	busy    error // what regions answer when they are to go

	lazy bool // complete in Progress only, not at the doorbell
}

func newFake(t *testing.T) (*fakeDevice, *verbs.Context) {
	t.Helper()
	f := &fakeDevice{regions: map[uint64][]byte{}, ahs: map[uint32]ibv.AddressVector{}, events: make(chan verbs.ProviderEvent, 4)}
	ctx := verbs.NewContext(f)
	t.Cleanup(func() {
		if err := ctx.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return f, ctx
}

func (f *fakeDevice) Name() string { return "fake0" }

// Resolve answers that the peer is a neighbour, or what resolveErr says.
func (f *fakeDevice) Resolve(_ context.Context, req *verbs.ResolveRequest) (verbs.Resolution, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return verbs.Resolution{Dst: req.Dst, Src: req.Src, NextHop: req.Dst}, f.resolveErr
}

func (f *fakeDevice) QueryDevice() (verbs.DeviceAttr, error) {
	return verbs.DeviceAttr{Name: "fake0"}, nil
}
func (f *fakeDevice) QueryPort() (verbs.PortAttr, error) {
	return verbs.PortAttr{PKeyTableLen: 1}, nil
}
func (f *fakeDevice) QueryClock() (verbs.Clock, error) {
	return verbs.Clock{Raw: 5_000, Wall: time.Unix(100, 7)}, nil
}
func (f *fakeDevice) GIDs() ([]verbs.GIDEntry, error)         { return f.gids, nil }
func (f *fakeDevice) Counters() ([]verbs.CounterValue, error) { return nil, nil }
func (f *fakeDevice) AllocPD() (uint32, error)                { f.pds++; return uint32(f.pds), nil }
func (f *fakeDevice) DeallocPD(uint32) error                  { f.pds--; return nil }
func (f *fakeDevice) AllocBuffer(n int) ([]byte, error)       { f.buffers++; return make([]byte, n), nil }
func (f *fakeDevice) FreeBuffer([]byte) error                 { f.buffers--; return nil }
func (f *fakeDevice) Close() error                            { f.closed = true; return nil }
func (f *fakeDevice) DeregisterMemory(mr verbs.ProviderMR) error {
	if f.busy != nil {
		return f.busy
	}
	delete(f.regions, mr.Handle)
	return nil
}

func (f *fakeDevice) RegisterMemory(pd uint32, b []byte, _ ibv.Access) (verbs.ProviderMR, error) {
	f.keys++
	f.regions[uint64(f.keys)] = b
	return verbs.ProviderMR{Handle: uint64(f.keys), Addr: uint64(f.keys) << 32, LKey: f.keys, RKey: f.keys}, nil
}

func (f *fakeDevice) AllocMW(uint32, ibv.MWType) (verbs.ProviderMW, error) {
	f.keys++
	f.aliases++
	return verbs.ProviderMW{Handle: uint64(f.keys), RKey: f.keys << 8}, nil
}

func (f *fakeDevice) DeallocMW(verbs.ProviderMW) error { f.aliases--; return f.busy }

func (f *fakeDevice) AllocFastMR(uint32, uint64) (verbs.ProviderMR, error) {
	f.keys++
	f.aliases++
	return verbs.ProviderMR{Handle: uint64(f.keys), LKey: f.keys << 8, RKey: f.keys << 8}, nil
}

func (f *fakeDevice) DeallocFastMR(verbs.ProviderMR) error {
	if f.busy != nil {
		return f.busy
	}
	f.aliases--
	return nil
}

func (f *fakeDevice) RegisterImplicit(uint32, ibv.Access) (verbs.ProviderMR, error) {
	f.keys++
	f.regions[uint64(f.keys)] = nil
	return verbs.ProviderMR{Handle: uint64(f.keys), LKey: f.keys, RKey: f.keys}, nil
}

func (f *fakeDevice) ReregisterMemory(mr verbs.ProviderMR, c *verbs.ProviderRereg) (verbs.ProviderMR, error) {
	f.reregs = append(f.reregs, *c)
	if f.refuse != nil {
		return mr, f.refuse
	}
	if c.Flags&ibv.ReregTranslation != 0 {
		f.keys++
		f.regions[mr.Handle] = c.Buf
		mr.LKey, mr.RKey, mr.Addr = f.keys, f.keys, uint64(f.keys)<<32
	}
	return mr, nil
}

func (f *fakeDevice) AdviseMemory(_ uint32, a ibv.Advice, sges []verbs.SGE) error {
	f.advice = append(f.advice, a)
	return f.refuse
}

func (f *fakeDevice) CreateAH(_ context.Context, _ uint32, av *ibv.AddressVector) (uint32, error) {
	f.lastAH++
	f.ahs[f.lastAH] = *av
	return f.lastAH, nil
}

func (f *fakeDevice) DestroyAH(ah uint32) error { delete(f.ahs, ah); return nil }

func (f *fakeDevice) OpenXRCD(attr *verbs.XRCDInitAttr) (uint32, error) {
	if f.xrcds == nil {
		f.xrcds = map[uint32]verbs.XRCDInitAttr{}
	}
	h := uint32(len(f.xrcds) + 1)
	f.xrcds[h] = *attr
	return h, nil
}

func (f *fakeDevice) CloseXRCD(h uint32) error { delete(f.xrcds, h); return nil }

// OpenQP knows the first queue pair that was made.
func (f *fakeDevice) OpenQP(xrcd, qpn uint32) (verbs.ProviderQP, error) {
	if q := f.qps[0]; q.num == qpn && q.init.XRCD == xrcd {
		again := *q
		return &again, nil
	}
	return nil, fmt.Errorf("%w: no target %#x", verbs.ErrInvalid, qpn)
}

func (f *fakeDevice) NextEvent(ctx context.Context) (verbs.ProviderEvent, error) {
	select {
	case e := <-f.events:
		return e, nil
	case <-ctx.Done():
		return verbs.ProviderEvent{}, ctx.Err()
	}
}

// Subscribe has the events share the device's channel: what a reader does not want is lost.
func (f *fakeDevice) Subscribe(types ...verbs.EventType) (verbs.ProviderEvents, error) {
	return &fakeEvents{f, types}, nil
}

type fakeEvents struct {
	f     *fakeDevice
	types []verbs.EventType
}

func (e *fakeEvents) NextEvent(ctx context.Context) (verbs.ProviderEvent, error) {
	for {
		ev, err := e.f.NextEvent(ctx)
		if err != nil || len(e.types) == 0 || slices.Contains(e.types, ev.Type) {
			return ev, err
		}
	}
}

func (e *fakeEvents) Close() {}

func (f *fakeDevice) Progress() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	did := false
	for _, q := range f.qps {
		did = q.run() || did
	}
	return did
}

type fakeCQ struct {
	f    *fakeDevice
	ring *queue.Ring
	prod *queue.Producer
	wake chan struct{}
	attr verbs.CQAttr
}

func (f *fakeDevice) CreateCQ(entries int) (verbs.ProviderCQ, error) {
	r, err := queue.New(entries, queue.CQESize)
	if err != nil {
		return nil, err
	}
	f.cqs++
	return &fakeCQ{f: f, ring: r, prod: queue.NewProducer(r), wake: make(chan struct{}, 1)}, nil
}

func (c *fakeCQ) Ring() *queue.Ring { return c.ring }

func (c *fakeCQ) Resize(entries int) error {
	n, _ := c.prod.Pending()
	if n > entries {
		return fmt.Errorf("%w: %d completions are queued", verbs.ErrInvalid, n)
	}
	r, err := queue.New(entries, queue.CQESize)
	if err != nil {
		return err
	}
	p := queue.NewProducer(r)
	for i := range n {
		copy(p.Slot(i), c.prod.PendingSlot(i))
	}
	p.Publish(n)
	r.Arm().Store(c.ring.Arm().Load())
	c.ring, c.prod = r, p
	return nil
}

func (c *fakeCQ) Modify(count int, period time.Duration) error {
	c.attr.Count, c.attr.Period = count, period
	return nil
}

func (c *fakeCQ) Query() (verbs.CQAttr, error) {
	c.attr.Entries = c.ring.Entries()
	return c.attr, nil
}

func (c *fakeCQ) Progress() bool { return c.f.Progress() }
func (c *fakeCQ) Destroy() error { c.f.cqs--; return nil }

func (c *fakeCQ) WaitEvent(ctx context.Context) error {
	select {
	case <-c.wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *fakeCQ) push(e *queue.CQE) {
	queue.PutCQE(c.prod.Slot(0), e)
	c.prod.Publish(1)
	if c.ring.Arm().Swap(queue.ArmNone) != queue.ArmNone {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

type fakeQP struct {
	f      *fakeDevice
	init   verbs.ProviderQPInit
	num    uint32
	sq, rq *queue.Ring
	cons   *queue.Consumer
	attr   ibv.QPAttr
	seen   []queue.SendWQE // send work requests in the order in which they arrived
	inline [][]byte
	record bool
	refuse error
	groups []ibv.GID
}

func (f *fakeDevice) CreateQP(in *verbs.ProviderQPInit) (verbs.ProviderQP, error) {
	if in.Type == verbs.XRCRecv {
		q := &fakeQP{f: f, init: *in, num: uint32(0x11 + len(f.qps))}
		f.qps = append(f.qps, q)
		return q, nil
	}
	sq, err := queue.New(in.Cap.MaxSendWR, queue.SendElemSize(in.Cap.MaxSendSGE, in.Cap.MaxInline))
	if err != nil {
		return nil, err
	}
	var rq *queue.Ring
	if in.SRQ == nil && in.Type != verbs.XRCSend {
		if rq, err = queue.New(in.Cap.MaxRecvWR, queue.RecvElemSize(in.Cap.MaxRecvSGE)); err != nil {
			return nil, err
		}
	}
	q := &fakeQP{f: f, init: *in, num: uint32(0x11 + len(f.qps)), sq: sq, rq: rq, cons: queue.NewConsumer(sq), record: true}
	f.qps = append(f.qps, q)
	return q, nil
}

func (q *fakeQP) QPN() uint32     { return q.num }
func (q *fakeQP) SQ() *queue.Ring { return q.sq }
func (q *fakeQP) RQ() *queue.Ring { return q.rq }
func (q *fakeQP) RecvDoorbell()   {}
func (q *fakeQP) Destroy() error  { return nil }

func (q *fakeQP) Doorbell() {
	if q.f.lazy {
		return
	}
	q.f.mu.Lock()
	q.run()
	q.f.mu.Unlock()
}

func (q *fakeQP) run() bool {
	n, ok := q.cons.Avail()
	if !ok {
		panic("producer index cannot be true")
	}
	for range n {
		slot := q.cons.Slot(0)
		var w queue.SendWQE
		queue.GetSend(slot, &w)
		if q.record {
			q.seen = append(q.seen, w)
			if w.Flags&ibv.SendInline != 0 {
				q.inline = append(q.inline, append([]byte(nil), queue.SendInline(slot)[:w.Length]...))
			}
		}
		q.cons.Release(1)
		e := queue.CQE{WRID: w.WRID, QPN: q.num, ByteLen: w.Length, Opcode: ibv.WCSend}
		q.init.SendCQ.(*fakeCQ).push(&e)
	}
	return n > 0
}

func (q *fakeQP) Modify(_ context.Context, a *ibv.QPAttr, mask ibv.AttrMask) error {
	if q.refuse != nil {
		return q.refuse
	}
	if mask&ibv.QPAttrState != 0 {
		q.attr.State = a.State
	}
	return nil
}

func (q *fakeQP) Query() (ibv.QPAttr, error) { return q.attr, nil }

func (q *fakeQP) AttachMulticast(g ibv.GID) error {
	q.groups = append(q.groups, g)
	return q.refuse
}

func (q *fakeQP) DetachMulticast(g ibv.GID) error {
	q.groups = slices.DeleteFunc(q.groups, func(have ibv.GID) bool { return have == g })
	return q.refuse
}

// rig is a queue pair of the fake device in a state.
type rig struct {
	f  *fakeDevice
	c  *verbs.Context
	pd *verbs.PD
	cq *verbs.CQ
	qp *verbs.QP
}

func newRig(t *testing.T, state verbs.QPState, c verbs.QPCap) *rig {
	t.Helper()
	return newRigOf(t, verbs.RC, state, c)
}

func newRigOf(t *testing.T, typ verbs.QPType, state verbs.QPState, c verbs.QPCap) *rig {
	t.Helper()
	f, ctx := newFake(t)
	r := &rig{f: f, c: ctx}
	r.pd = must(ctx.AllocPD())(t)
	r.cq = must(ctx.CreateCQ(1024))(t)
	r.qp = must(r.pd.CreateQP(&verbs.QPInitAttr{Type: typ, SendCQ: r.cq, RecvCQ: r.cq, Cap: c}))(t)
	if state != verbs.QPStateReset {
		if err := r.qp.Modify(&verbs.QPAttr{State: state}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (r *rig) fake() *fakeQP { return r.f.qps[0] }
