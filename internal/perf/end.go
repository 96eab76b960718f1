package perf

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// ErrStalled reports that nothing completed for a long time.
var ErrStalled = errors.New("nothing completes")

// stall is how long a test waits for the next completion. The queue pairs give
// up earlier when the peer is gone; this is for peers that live and do nothing.
const stall = 20 * time.Second

// End is one side of a test. One goroutine uses it at a time.
type End struct {
	dev   *verbs.Context
	pd    *verbs.PD
	cq    *verbs.CQ
	mr    *verbs.MR
	qps   []*verbs.QP
	conns []*cm.Conn // with Params.RDMACM, whose queue pairs they are
	gid   verbs.GIDEntry
	path  connect.Path
	own   []connect.Endpoint
	peer  []connect.Endpoint
	p     Params
	slot  int // bytes of each half of the buffer: source, then target
	wcs   []verbs.WC
	recvs []verbs.RecvWR
	pace  pacer

	size                 int         // of a message, set by Prepare
	sourceSGE, targetSGE []verbs.SGE // size bytes of each half
	rounds               int64       // of latency tests, in step with the peer
	arrived              int64       // messages received

	// Requests of each queue pair, as counts from its first: posted, known to have
	// completed, and up to the last that generates a completion.
	posted, done, signaled []int64
}

// NewEnd makes the queue pairs and the buffer of one side and posts its
// receives. Params are complete, path has the MTU that both ends use. With
// Params.RDMACM the queue pairs come with their connections, by Dial and Accept.
func NewEnd(dev *verbs.Context, gid verbs.GIDEntry, path connect.Path, p Params) (*End, error) {
	e := &End{
		dev: dev, gid: gid, path: path, p: p, wcs: make([]verbs.WC, 64),
		posted: make([]int64, p.QPs), done: make([]int64, p.QPs), signaled: make([]int64, p.QPs),
	}
	e.path.SGIDIndex = gid.Index
	e.path.Access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	e.path.RDAtomic = uint8(p.Outstanding)
	e.path.TrafficClass, e.path.SL, e.path.Timeout = p.TrafficClass, p.SL, p.Timeout
	if err := e.build(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func (e *End) build() error {
	if err := e.allocate(); err != nil {
		return err
	}
	if e.p.RDMACM {
		return nil
	}
	for i := range e.p.QPs {
		qp, err := e.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq, Context: uint64(i), Cap: e.capacity()})
		if err != nil {
			return err
		}
		e.qps = append(e.qps, qp)
		if err := connect.ToInit(qp, e.path); err != nil {
			return err
		}
		e.own = append(e.own, connect.Local(qp, e.gid, e.mr))
		if err := e.postReceives(qp); err != nil {
			return err
		}
	}
	return nil
}

func (e *End) capacity() verbs.QPCap {
	return verbs.QPCap{MaxSendWR: e.p.TxDepth, MaxRecvWR: e.p.RxDepth, MaxInline: e.p.Inline}
}

// allocate makes what all queue pairs share.
func (e *End) allocate() error {
	var err error
	if e.pd, err = e.dev.AllocPD(); err != nil {
		return err
	}
	e.slot = (max(e.p.largest(), 8) + 4095) &^ 4095
	buf, err := e.dev.AllocBuffer(2 * e.slot)
	if err != nil {
		return err
	}
	for i := range buf[:e.slot] {
		buf[i] = byte(i)
	}
	if e.mr, err = e.pd.RegisterMemory(buf, e.path.Access); err != nil {
		return err
	}
	perQP := e.p.TxDepth + 1
	if e.p.Test.Op == Send {
		perQP += e.p.RxDepth
	}
	if e.cq, err = e.dev.CreateCQ(e.p.QPs * perQP); err != nil {
		return err
	}
	if e.p.Test.Op == Send {
		e.recvs = make([]verbs.RecvWR, e.p.RxDepth)
		for i := range e.recvs {
			e.recvs[i].SGList = []verbs.SGE{e.mr.SGE(e.slot, e.slot)}
		}
	}
	return nil
}

// postReceives fills the receive queue of a queue pair, in tests that consume receives.
func (e *End) postReceives(qp *verbs.QP) error {
	_, err := qp.PostRecvBatch(e.recvs)
	return err
}

// Endpoints are what the peer must know, one for each queue pair.
func (e *End) Endpoints() []connect.Endpoint { return e.own }

// Connect connects the queue pairs to the peer's, each as verbs.QP.ModifyContext does.
func (e *End) Connect(ctx context.Context, peer []connect.Endpoint) error {
	if err := e.Meet(peer); err != nil {
		return err
	}
	for i, qp := range e.qps {
		if err := connect.Connect(ctx, qp, e.path, e.own[i], peer[i]); err != nil {
			return err
		}
	}
	return nil
}

// Meet tells the end where the memory of the peer is. Connect does so too; alone it is for
// queue pairs that are connected already.
func (e *End) Meet(peer []connect.Endpoint) error {
	if len(peer) != len(e.qps) {
		return fmt.Errorf("%w: %d queue pairs for %d", connect.ErrEndpoint, len(peer), len(e.qps))
	}
	for i := range peer {
		if peer[i].Len < uint64(2*e.slot) {
			return fmt.Errorf("%w: its buffer has %d bytes, the test needs %d", connect.ErrEndpoint, peer[i].Len, 2*e.slot)
		}
	}
	e.peer = peer
	return nil
}

// Close frees everything that the end made on the device.
func (e *End) Close() error {
	var errs error
	for _, c := range e.conns {
		errs = errors.Join(errs, c.Close())
	}
	for _, qp := range e.qps[len(e.conns):] { // the others went with their connections
		errs = errors.Join(errs, qp.Destroy())
	}
	e.conns, e.qps = nil, nil
	if e.cq != nil {
		errs = errors.Join(errs, e.cq.Destroy())
		e.cq = nil
	}
	if e.mr != nil {
		buf := e.mr.Bytes()
		errs = errors.Join(errs, e.mr.Deregister(), e.dev.FreeBuffer(buf))
		e.mr = nil
	}
	if e.pd != nil {
		errs = errors.Join(errs, e.pd.Dealloc())
		e.pd = nil
	}
	return errs
}

// Serve answers the peer until ctx ends, which is no error: it takes completions
// and posts receives again. In latency tests it polls all the time; else it
// sleeps between completions and leaves the device to its own goroutines, as the
// passive end of an adapter does.
func (e *End) Serve(ctx context.Context) error {
	e.pace.reset()
	for ctx.Err() == nil {
		var err error
		if e.p.Test.Latency {
			err = e.attend(ctx)
		} else {
			err = e.sleep(ctx)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// attend looks once for completions and other work of the device.
func (e *End) attend(ctx context.Context) error {
	before := e.pace.empty
	// A peer may pause between measurements: that is not for this end to judge.
	if err := e.poll(ctx); err != nil && !errors.Is(err, ErrStalled) {
		return err
	}
	if e.pace.empty != before && e.dev.Progress() {
		e.pace.reset()
	}
	return nil
}

// sleep waits for completions and counts them.
func (e *End) sleep(ctx context.Context) error {
	n, err := e.cq.Wait(ctx, e.wcs)
	if err != nil {
		return err
	}
	return e.count(n)
}

// idle is the pacer's, and an error once the device is gone: to who polls, a daemon that
// has ended looks like one that has nothing to tell.
func (e *End) idle(ctx context.Context) error {
	if err := e.pace.idle(ctx); err != nil || e.pace.empty%patient != 0 {
		return err
	}
	return e.cq.Err()
}

// pacer is what a polling loop does in rounds that find nothing: it lets other
// goroutines run, and looks now and then whether to give up.
type pacer struct {
	empty int
	since time.Time
}

func (p *pacer) reset() { *p = pacer{} }

// patient is how many rounds without work there are between two looks at whether
// there will be any.
const patient = 1024

// idle counts a round without work. It is the context's error, or ErrStalled
// after a long time without any reset.
func (p *pacer) idle(ctx context.Context) error {
	p.empty++
	if p.empty%64 == 0 {
		runtime.Gosched()
	}
	if p.empty%patient != 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	now := time.Now()
	if p.since.IsZero() {
		p.since = now
	}
	if now.Sub(p.since) > stall {
		p.since = now
		return fmt.Errorf("%w for %v: is the other end still running?", ErrStalled, stall)
	}
	return nil
}
