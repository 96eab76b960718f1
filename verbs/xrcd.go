package verbs

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// XRCDInitAttr says which XRC domain to open (ibv_xrcd_init_attr). A name stands
// for the file that libibverbs shares a domain by: whoever opens the same name on
// the device gets the same domain. Without one the domain is new and nobody else's.
type XRCDInitAttr struct {
	Name      string
	Create    bool // make the domain of that name if there is none, as O_CREAT does
	Exclusive bool // with Create: only if there is none, as O_EXCL does
}

// XRCD is an XRC domain (ibv_xrcd): the shared receive queues of type SRQXRC that
// its targets, queue pairs of type XRCRecv, take receives from. With XRC a host
// needs one connection from each peer, however many programs it runs: each of them
// has a shared queue, and each request says in SendWR.RemoteSRQN which it is for
// (IBTA vol. 1, annex A14).
//
//	d, err := dev.OpenXRCD(&verbs.XRCDInitAttr{Name: "job 7", Create: true})
//	srq, err := pd.CreateSRQ(&verbs.SRQInitAttr{Type: verbs.SRQXRC, XRCD: d, CQ: cq})
//	tgt, err := d.CreateQP(&verbs.QPInitAttr{Type: verbs.XRCRecv})
type XRCD struct {
	ctx    *Context
	handle uint32
	label  string
	users  atomic.Int32 // shared receive queues and targets

	mu   sync.Mutex // held while one is made, and for closing
	gone bool
}

// OpenXRCD opens an XRC domain; nil attributes are those of a domain without a
// name. The error is fs.ErrNotExist when there is none of that name and Create is
// not set, fs.ErrExist when there is one and Exclusive is.
func (c *Context) OpenXRCD(attr *XRCDInitAttr) (*XRCD, error) {
	var a XRCDInitAttr
	if attr != nil {
		a = *attr
	}
	switch {
	case a.Exclusive && !a.Create:
		return nil, opErr("open xrcd", c.Name(), invalid("Exclusive needs Create"))
	case a.Name == "":
		a.Create, a.Exclusive = true, true
	}
	if err := c.alive(); err != nil {
		return nil, opErr("open xrcd", c.Name(), err)
	}
	h, err := c.p.OpenXRCD(&a)
	if err != nil {
		return nil, opErr("open xrcd", c.Name(), err)
	}
	d := &XRCD{ctx: c, handle: h, label: fmt.Sprintf("xrcd %q", a.Name)}
	if a.Name == "" {
		d.label = fmt.Sprintf("xrcd %d", h)
	}
	c.mu.Lock()
	c.xrcds[d] = struct{}{}
	c.mu.Unlock()
	return d, nil
}

// Context is the device of the domain.
func (d *XRCD) Context() *Context { return d.ctx }

// Close gives the domain up; it ends when all who have opened it have closed it.
// It is ErrBusy while shared receive queues or targets that were made with d use
// it. Closing twice is no error.
func (d *XRCD) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return nil
	}
	if n := d.users.Load(); n > 0 {
		return opErr("close", d.label, fmt.Errorf("%w: %d shared receive queues and targets use it: destroy them first", ErrBusy, n))
	}
	d.gone = true
	d.ctx.mu.Lock()
	delete(d.ctx.xrcds, d)
	d.ctx.mu.Unlock()
	return opErr("close", d.label, d.ctx.p.CloseXRCD(d.handle))
}

// enter counts an object that is about to be made; leave undoes it.
func (d *XRCD) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return fmt.Errorf("xrc domain: %w", ErrClosed)
	}
	d.users.Add(1)
	return nil
}

func (d *XRCD) leave() { d.users.Add(-1) }

// CreateQP makes a target in RESET: a queue pair of type XRCRecv, which has no
// queues of its own, and none of the other attributes but Context and Congestion.
func (d *XRCD) CreateQP(attr *QPInitAttr) (*QP, error) {
	if err := checkTarget(attr); err != nil {
		return nil, opErr("create qp", d.label, err)
	}
	q, err := d.target("create qp", attr.Context, func() (ProviderQP, error) {
		return d.ctx.p.CreateQP(&ProviderQPInit{Type: XRCRecv, XRCD: d.handle, Context: attr.Context, Congestion: attr.Congestion})
	})
	if err == nil {
		q.congestion = attr.Congestion
	}
	return q, err
}

func checkTarget(attr *QPInitAttr) error {
	switch {
	case attr == nil || attr.Type != XRCRecv:
		return invalid("the queue pairs of an XRC domain have the type XRC_RECV: make others with PD.CreateQP")
	case attr.SendCQ != nil || attr.RecvCQ != nil || attr.SRQ != nil || attr.Cap != (QPCap{}):
		return invalid("an XRC target has no queues: leave SendCQ, RecvCQ, SRQ and Cap away")
	case !attr.Congestion.Valid():
		return invalid("Congestion is %v: 0 to %d are possible", attr.Congestion, CongestionDCQCN)
	}
	return nil
}

// OpenQP opens the target with number num that somebody else has made in the domain
// (ibv_open_qp). It lives until all who have made or opened it have destroyed it;
// each of them gets its asynchronous events. It is ErrLimit when it is open 1024 times,
// or the program has as many queue pairs as it may.
func (d *XRCD) OpenQP(num uint32) (*QP, error) {
	return d.target("open qp", 0, func() (ProviderQP, error) { return d.ctx.p.OpenQP(d.handle, num) })
}

func (d *XRCD) target(op string, context uint64, make func() (ProviderQP, error)) (*QP, error) {
	if err := d.enter(); err != nil {
		return nil, opErr(op, d.label, err)
	}
	if err := d.ctx.alive(); err != nil {
		d.leave()
		return nil, opErr(op, d.label, err)
	}
	p, err := make()
	if err != nil {
		d.leave()
		return nil, opErr(op, d.label, err)
	}
	q := &QP{ctx: d.ctx, xrcd: d, p: p, typ: XRCRecv, context: context, modify: newTurn()}
	q.register()
	return q, nil
}

// xrcSRQ checks what a shared receive queue of an XRC domain is made of and fills
// in what its provider needs.
func (d *XRCD) xrcSRQ(pd *PD, attr *SRQInitAttr, p *ProviderSRQInit) error {
	switch {
	case d == nil || attr.CQ == nil:
		return invalid("a shared receive queue of type XRC needs XRCD and CQ")
	case d.ctx != pd.ctx || attr.CQ.ctx != pd.ctx:
		return invalid("the XRC domain or completion queue belongs to another device")
	}
	if err := attr.CQ.Err(); err != nil {
		return fmt.Errorf("completion queue: %w", err)
	}
	p.XRCD, p.CQ = d.handle, attr.CQ.p
	return nil
}

// newProducer is the producer of a queue, nil if there is none.
func newProducer(r *queue.Ring) *queue.Producer {
	if r == nil {
		return nil
	}
	return queue.NewProducer(r)
}
