package verbs

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Context is an open device (ibv_context).
type Context struct {
	p    Provider
	lost *atomic.Bool // set when the device has ended by itself

	mu      sync.Mutex
	closed  bool
	pds     map[*PD]struct{}
	cqs     map[*CQ]struct{}
	qps     map[ProviderQP]*QP
	srqs    map[ProviderSRQ]*SRQ
	xrcds   map[*XRCD]struct{}
	buffers map[*byte][]byte
	closers map[*func()]struct{}
}

// NewContext makes a Context of a provider. Providers call it; programs get
// their Context from datapath.Open or Open.
func NewContext(p Provider) *Context {
	lost := new(atomic.Bool)
	if l, ok := p.(interface{ Lost() *atomic.Bool }); ok {
		lost = l.Lost()
	}
	return &Context{
		p:       p,
		lost:    lost,
		pds:     map[*PD]struct{}{},
		cqs:     map[*CQ]struct{}{},
		qps:     map[ProviderQP]*QP{},
		srqs:    map[ProviderSRQ]*SRQ{},
		xrcds:   map[*XRCD]struct{}{},
		buffers: map[*byte][]byte{},
		closers: map[*func()]struct{}{},
	}
}

// Name is the name of the network interface.
func (c *Context) Name() string { return c.p.Name() }

// Provider is what provides the device: for packages that build on it what
// this one does not have, such as connection management.
func (c *Context) Provider() Provider { return c.p }

// QueryDevice tells the device's limits and identity.
func (c *Context) QueryDevice() (DeviceAttr, error) { return c.p.QueryDevice() }

// QueryPort tells the state of the device's only port.
func (c *Context) QueryPort() (PortAttr, error) { return c.p.QueryPort() }

// Counters are the device's counters: those of Linux's rxe first, under their
// names, then ours.
func (c *Context) Counters() ([]CounterValue, error) { return c.p.Counters() }

// Progress runs the device once in the caller's goroutine and reports whether
// there was anything to do. A program that spins on memory which a peer writes,
// and polls no completion queue, calls it to be served without a hand-over.
func (c *Context) Progress() bool { return c.p.Progress() }

// AllocPD makes a protection domain.
func (c *Context) AllocPD() (*PD, error) {
	if err := c.alive(); err != nil {
		return nil, opErr("allocate pd", c.Name(), err)
	}
	h, err := c.p.AllocPD()
	if err != nil {
		return nil, opErr("allocate pd", c.Name(), err)
	}
	pd := &PD{ctx: c, handle: h, mrs: map[uint32]*MR{}, mws: map[*MW]struct{}{}, fast: map[*FastMR]struct{}{}, ahs: map[*AH]struct{}{}}
	c.mu.Lock()
	c.pds[pd] = struct{}{}
	c.mu.Unlock()
	return pd, nil
}

// AllocBuffer returns n bytes outside the Go heap, page-aligned, zeroed and
// locked in memory: the best backing of a memory region. FreeBuffer gives them
// back; until then, and while a region uses them, they stay valid.
func (c *Context) AllocBuffer(n int) ([]byte, error) {
	if n <= 0 {
		return nil, opErr("allocate buffer", c.Name(), invalid("%d bytes: at least 1 is needed", n))
	}
	if err := c.alive(); err != nil {
		return nil, opErr("allocate buffer", c.Name(), err)
	}
	b, err := c.p.AllocBuffer(n)
	if err != nil {
		return nil, opErr("allocate buffer", c.Name(), err)
	}
	c.mu.Lock()
	c.buffers[startOf(b)] = b
	c.mu.Unlock()
	return b, nil
}

// FreeBuffer frees what AllocBuffer returned. It is ErrBusy while a region is
// registered on any of its bytes.
func (c *Context) FreeBuffer(b []byte) error {
	c.mu.Lock()
	full, ok := c.buffers[startOf(b)]
	delete(c.buffers, startOf(b))
	pds := keys(c.pds)
	c.mu.Unlock()
	if !ok {
		return opErr("free buffer", c.Name(), invalid("not the start of a buffer of AllocBuffer"))
	}
	// A domain's lock comes before the context's, so that is not held here.
	for _, pd := range pds {
		if mr := pd.overlaps(full); mr != nil {
			c.mu.Lock()
			c.buffers[startOf(b)] = full
			c.mu.Unlock()
			return opErr("free buffer", c.Name(), fmt.Errorf("%w: region with lkey %#x is registered on it: deregister it first", ErrBusy, mr.LKey()))
		}
	}
	return opErr("free buffer", c.Name(), c.p.FreeBuffer(full))
}

// BeforeClose has Close call f before it destroys anything, and wait for it: for
// packages with goroutines that use the device. undo ends that. It is ErrClosed
// when Close has begun.
func (c *Context) BeforeClose(f func()) (undo func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, opErr("wait for the end of", c.Name(), ErrClosed)
	}
	c.closers[&f] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.closers, &f)
	}, nil
}

// Close destroys everything that was made on the device and closes it. Closing
// twice is no error.
func (c *Context) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	closers := keys(c.closers)
	c.mu.Unlock()
	if i, ok := c.p.(Interrupter); ok {
		i.Interrupt()
	}
	for _, f := range closers {
		(*f)()
	}
	c.mu.Lock()
	qps := make([]*QP, 0, len(c.qps))
	for _, q := range c.qps {
		qps = append(qps, q)
	}
	srqs := make([]*SRQ, 0, len(c.srqs))
	for _, s := range c.srqs {
		srqs = append(srqs, s)
	}
	xrcds, cqs, pds := keys(c.xrcds), keys(c.cqs), keys(c.pds)
	c.mu.Unlock()

	var errs []error
	for _, q := range qps {
		errs = append(errs, q.Destroy())
	}
	for _, s := range srqs {
		errs = append(errs, s.Destroy())
	}
	for _, d := range xrcds {
		errs = append(errs, d.Close())
	}
	for _, cq := range cqs {
		errs = append(errs, cq.Destroy())
	}
	for _, pd := range pds {
		errs = append(errs, pd.destroyAll())
	}
	c.mu.Lock()
	for k, b := range c.buffers {
		delete(c.buffers, k)
		errs = append(errs, c.p.FreeBuffer(b))
	}
	c.mu.Unlock()
	errs = append(errs, c.p.Close())
	return opErr("close", c.Name(), errors.Join(errs...))
}

func (c *Context) alive() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	return nil
}

func keys[K comparable](m map[K]struct{}) []K {
	out := make([]K, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}
