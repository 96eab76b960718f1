package datapath

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// ClientConfig says who a client is and what it may have.
type ClientConfig struct {
	// Name is for messages to people: "client 3".
	Name string
	// Owner is who shares the names of XRC domains with whom, as processes of one
	// user do.
	Owner string
	// NewRing and FreeRing are where the memory of queues comes from and goes to;
	// nil: the process's own. FreeRing is called when nobody on this side uses the
	// ring any more, with locks held of what the ring was of: it must not call the
	// client, but may take its time. It is not called for what is destroyed once the
	// device is closed.
	NewRing  func(entries, elem int) (*queue.Ring, error)
	FreeRing func(*queue.Ring)
	// Bells are the doorbells of the client's queue pairs, in memory shared with it,
	// by worker; nil: it calls Doorbell.
	Bells []*queue.Bells
	// WakeFDs are event counters (eventfd) that the client writes to wake workers
	// that sleep, by worker; nil: none. They stay open until the client is closed.
	WakeFDs []int
	// Privileged clients may have queue pair 1 and privileged Q_Keys.
	Privileged bool
	Limits     Limits
}

// Limits are what a client may have; 0 is as much as the device can.
type Limits struct {
	PDs, MRs, CQs, QPs, SRQs, AHs, XRCDs int    // MRs with memory windows; XRCDs are opens
	Groups                               int    // attachments of queue pairs to multicast groups
	Bytes                                uint64 // of registered memory
	// Messages and BytesPerSecond are rates at which it may send, a second, all its
	// queue pairs together; 0 is as fast as it can.
	Messages, BytesPerSecond uint64
}

// Usage is what a client has.
type Usage struct {
	PDs, MRs, CQs, QPs, SRQs, AHs, XRCDs int
	Groups                               int
	Bytes                                uint64 // of registered memory
}

// Client is a user of a device with objects and events of its own: the objects of
// other clients do not exist for it. It implements verbs.Provider, so that
// verbs.NewContext makes a context of it; a daemon has one for each program.
type Client struct {
	dev        *Device
	cfg        ClientConfig
	limits     Limits
	privileged func() bool
	events     *events
	closed     atomic.Bool   // written with the device's lock held
	lanes      []*lane       // by worker
	done       chan struct{} // closed with the client
	closing    sync.Mutex    // held while it is closed
	use        Usage         // guarded by the device's lock
}

// NewClient makes a client without objects. It ends with Close or with the device.
func (d *Device) NewClient(cfg *ClientConfig) (*Client, error) {
	if (cfg.NewRing == nil) != (cfg.FreeRing == nil) {
		return nil, fmt.Errorf("%w: %s makes rings and does not free them, or the other way round", ErrConfig, cfg.Name)
	}
	n := len(d.workers)
	if cfg.Bells != nil && len(cfg.Bells) != n || cfg.WakeFDs != nil && len(cfg.WakeFDs) != n {
		return nil, fmt.Errorf("%w: %s has doorbells for %d workers and counters for %d: there are %d", ErrConfig, cfg.Name, len(cfg.Bells), len(cfg.WakeFDs), n)
	}
	c := newClient(d, cfg)
	if err := c.watch(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := c.enter(); err != nil {
		c.unwatch(n)
		return nil, err
	}
	d.setClients(append(slices.Clone(*d.clients.Load()), c))
	return c, nil
}

// watch has the client's counters wake the workers.
func (c *Client) watch() error {
	for i, fd := range c.cfg.WakeFDs {
		if err := c.dev.workers[i].waiter.Watch(fd); err != nil {
			c.unwatch(i)
			return fmt.Errorf("watch the event counters of %s: %w", c.cfg.Name, err)
		}
	}
	return nil
}

// unwatch undoes that for the first n workers.
func (c *Client) unwatch(n int) {
	for i, fd := range c.cfg.WakeFDs {
		if i < n {
			// An error says that the waiter is closed, and watches nothing.
			_ = c.dev.workers[i].waiter.Unwatch(fd)
		}
	}
}

// enter makes the client a part of all workers. The device's lock is held.
func (c *Client) enter() error {
	d := c.dev
	if d.closed.Load() {
		return ErrClosed
	}
	p := newPace(c.limits.Messages, c.limits.BytesPerSecond)
	keptOf := make([]atomic.Int64, len(d.workers))
	for i, w := range d.workers {
		l := newLane()
		l.pace, l.keptOf = p, keptOf
		if c.cfg.Bells != nil {
			l.bells = c.cfg.Bells[i]
		}
		c.lanes = append(c.lanes, l)
		if err := w.control(func() { w.addLane(l) }); err != nil {
			return err
		}
	}
	return nil
}

// leave undoes enter.
func (c *Client) leave() {
	for i, w := range c.dev.workers {
		// An error says that the device is closed.
		_ = w.control(func() { w.dropLane(c.lanes[i]) })
		w.settleBells()
	}
	c.unwatch(len(c.dev.workers))
}

func newClient(d *Device, cfg *ClientConfig) *Client {
	c := &Client{dev: d, cfg: *cfg, limits: cfg.Limits, events: newEvents(), done: make(chan struct{})}
	c.privileged = func() bool { return c.cfg.Privileged }
	for _, l := range []struct {
		limit *int
		most  int
	}{
		{&c.limits.PDs, maxPD}, {&c.limits.MRs, maxMR}, {&c.limits.CQs, maxCQ}, {&c.limits.QPs, maxQP},
		{&c.limits.SRQs, maxSRQ}, {&c.limits.AHs, maxAH}, {&c.limits.XRCDs, maxXRCD},
		{&c.limits.Groups, maxGroups * maxGroupMembers},
	} {
		if *l.limit <= 0 || *l.limit > l.most {
			*l.limit = l.most
		}
	}
	return c
}

// setClients publishes who hears of the port's events. The device's lock is held.
func (d *Device) setClients(list []*Client) { d.clients.Store(&list) }

// ClientName is the name that the client was given; Name is the interface's.
func (c *Client) ClientName() string { return c.cfg.Name }

// Usage is what the client has now.
func (c *Client) Usage() Usage {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	return c.use
}

// PDUse is a protection domain with the number of objects in it.
type PDUse struct {
	PD      uint32
	Objects int
}

// PDs are the client's protection domains, by number.
func (c *Client) PDs() []PDUse {
	var list []PDUse
	walk(c.dev, keysOf(c.dev, c.dev.pds), func(pd uint32) {
		if m := c.dev.pds[pd]; m != nil && m.owner == c {
			list = append(list, PDUse{PD: pd, Objects: m.objects})
		}
	})
	slices.SortFunc(list, func(a, b PDUse) int { return cmp.Compare(a.PD, b.PD) })
	return list
}

// gone reports whether nothing of the client is left, or will be soon.
func (c *Client) gone() bool { return c.closed.Load() || c.dev.closed.Load() }

// end waits for that.
func (c *Client) end() error {
	if c.dev.closed.Load() {
		return c.dev.Close()
	}
	return c.Close()
}

// admit counts one more object, of which the client may have limit. The device's
// lock is held.
func (c *Client) admit(n *int, limit int, what string) error {
	switch {
	case c.gone():
		return ErrClosed
	case *n >= limit:
		return fmt.Errorf("%w: %d %s are all that may exist at a time: destroy some, or have the limit raised", ErrLimit, limit, what)
	}
	*n++
	return nil
}

// charge is admit for who does not hold the lock, and discharge undoes it.
func (c *Client) charge(n *int, limit int, what string) error {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	return c.admit(n, limit, what)
}

func (c *Client) discharge(n *int) {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	*n--
}

// admitBytes reports whether n more bytes may be registered. The device's lock is
// held.
func (c *Client) admitBytes(n uint64) error {
	if most := c.limits.Bytes; most != 0 && n > most-min(most, c.use.Bytes) {
		return fmt.Errorf("%w: %d more bytes of registered memory: %d are, of %d that may be", ErrLimit, n, c.use.Bytes, most)
	}
	return nil
}

func (c *Client) newRing(entries, elem int) (*queue.Ring, error) {
	if c.cfg.NewRing == nil {
		return queue.New(entries, elem)
	}
	return c.cfg.NewRing(entries, elem)
}

func (c *Client) freeRing(r *queue.Ring) {
	if c.cfg.FreeRing != nil {
		c.cfg.FreeRing(r)
	}
}

// Name is the name of the interface.
func (c *Client) Name() string { return c.dev.Name() }

// QueryDevice tells limits, the client's own where they are lower, and identity.
func (c *Client) QueryDevice() (verbs.DeviceAttr, error) {
	a, err := c.dev.QueryDevice()
	if c.closed.Load() {
		return verbs.DeviceAttr{}, ErrClosed
	}
	l := &c.limits
	a.MaxPD, a.MaxMR, a.MaxMW = min(a.MaxPD, l.PDs), min(a.MaxMR, l.MRs), min(a.MaxMW, l.MRs)
	a.MaxCQ, a.MaxQP, a.MaxSRQ = min(a.MaxCQ, l.CQs), min(a.MaxQP, l.QPs), min(a.MaxSRQ, l.SRQs)
	a.MaxAH, a.MaxXRCD = min(a.MaxAH, l.AHs), min(a.MaxXRCD, l.XRCDs)
	if l.Bytes != 0 {
		a.MaxMRSize = min(a.MaxMRSize, l.Bytes)
	}
	return a, err
}

// QueryPort tells the state of the port.
func (c *Client) QueryPort() (verbs.PortAttr, error) {
	if c.closed.Load() {
		return verbs.PortAttr{}, ErrClosed
	}
	return c.dev.QueryPort()
}

// QueryClock reads the clock of completions and the wall clock at one moment.
func (c *Client) QueryClock() (verbs.Clock, error) {
	if c.closed.Load() {
		return verbs.Clock{}, ErrClosed
	}
	return c.dev.QueryClock()
}

// GIDs is the GID table in index order, up to the last entry in use.
func (c *Client) GIDs() ([]verbs.GIDEntry, error) {
	if c.closed.Load() {
		return nil, ErrClosed
	}
	return c.dev.GIDs()
}

// Resolve finds out how the device reaches a peer; see verbs.Context.Resolve.
func (c *Client) Resolve(ctx context.Context, req *verbs.ResolveRequest) (verbs.Resolution, error) {
	if c.closed.Load() {
		return verbs.Resolution{}, ErrClosed
	}
	return c.dev.Resolve(ctx, req)
}

// Counters are those of the device.
func (c *Client) Counters() ([]verbs.CounterValue, error) {
	if c.closed.Load() {
		return nil, ErrClosed
	}
	return c.dev.Counters()
}

// Progress drives all workers of the device once in the caller's goroutine and
// reports whether there was anything to do.
func (c *Client) Progress() bool { return !c.closed.Load() && c.dev.Progress() }
