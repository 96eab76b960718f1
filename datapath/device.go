package datapath

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Limits of a device.
const (
	maxQP     = maxQPN - minQPN // as many as there are numbers
	maxCQ     = 1 << 20
	maxSRQ    = 1 << 20
	maxSRQN   = 1<<24 - 1 // numbers of those in XRC domains
	maxXRCD   = 1 << 16
	maxPD     = 1 << 20
	maxMR     = 1 << 20
	maxMRSize = 1 << 46
)

// Device is an open adapter. It implements verbs.Provider; tools that want more
// than a verbs.Context use it directly.
type Device struct {
	opts    Options
	share   share
	umem    *xsk.UMEM
	workers []*worker
	keptOf  []homeKept // by worker: of its frames
	table   qpTable

	addresses ahTable
	groups    groupTable
	tags      atomic.Pointer[tagSet]
	unsteered []netip.Addr // own addresses of which the XDP program knows nothing; for setOwn alone

	mem    *memory.Table
	steer  steering
	routes resolver
	hops   *hopCache  // in front of the resolver, if there is one
	paths  pathFinder // nil: there is no kernel to ask
	joins  joiner
	mode   string
	netns  uint64
	zero   bool // zero-copy

	linger  time.Duration
	breath  breath
	posture posture

	root       *Client                   // who uses the device itself
	clients    atomic.Pointer[[]*Client] // root first
	eventsLost atomic.Uint64             // of clients that are gone
	unlocked   atomic.Uint64             // bytes of buffers that could not be locked

	background sync.WaitGroup
	closed     atomic.Bool
	done       chan struct{} // closed with the device
	renamed    chan struct{} // see Renamed
	hurry      chan struct{} // closed before: nobody waits for a neighbour any more
	hurryOnce  sync.Once
	closeOnce  sync.Once
	closeErr   error
	cleanup    []func() error // what Close calls last, in reverse

	following sync.Mutex    // held while routes follow a change; before routing
	routing   sync.Mutex    // held while routes are altered and applied; before mu
	changes   atomic.Uint64 // to what routes are made of, counted with mu
	rerouting chan struct{} // has an element when routes are to be looked up again

	windowing sync.Mutex // held while limits are computed and applied; before mu

	mu        sync.Mutex // guards what follows; never taken by who holds a worker's lock
	link      linkInfo
	reaction  *transport.DCQCN // of queue pairs made last, nil if none reacts to congestion
	gids      gidTable
	numbers   qpnSource
	pds       map[uint32]*protection
	lastPD    uint32
	mrs       map[uint64]*registered
	lastMR    uint64
	cqs       map[*cq]struct{}
	lastCQN   uint32
	qps       map[*qp]struct{}
	buffers   map[uint64]buffer
	handles   map[uint32]*handleRoute
	lastAH    uint32
	connected int
	srqs      map[*srq]struct{}

	xrcds      map[uint32]*xrcd
	lastXRCD   uint32
	srqNumbers map[uint32]struct{} // in use
	lastSRQN   uint32
}

// steering is what the device needs of the XDP program.
type steering interface {
	AddQPN(qpn uint32) error
	DelQPN(qpn uint32) error
	AddAddress(a netip.Addr) error
	DelAddress(a netip.Addr) error
	Counters() ([]bpf.Counter, error)
}

// resolver finds the link-layer address of the next hop.
type resolver interface {
	// resolve waits for the next hop to answer until ctx ends, for resolve.DefaultWait if that
	// has no deadline.
	resolve(ctx context.Context, l leg) (nextHop, error)
	// hop is its address alone, which is known without asking anybody.
	hop(l leg) (netip.Addr, error)
}

// joiner has the host join multicast groups on the interface.
type joiner interface {
	join(group netip.Addr) error
	leave(group netip.Addr) error
}

// linkInfo is what the interface is now.
type linkInfo struct {
	name    string
	index   int
	mac     [6]byte
	mtu     int
	running bool
	speed   int // Mb/s, 0 when unknown
	gone    bool
}

// config is what a device is made of.
type config struct {
	opts    Options // complete
	umem    *xsk.UMEM
	ports   []xsk.Port
	waiters []xsk.Waiter
	link    linkInfo
	steer   steering
	routes  resolver
	joins   joiner
	mode    string
	zero    bool
	netns   uint64 // see resolve.Namespace; 0: no kernel is behind it
}

// newDevice makes a device over ports that share a UMEM. Their background
// goroutines start with start.
func newDevice(c config) *Device {
	d := &Device{
		opts:    c.opts,
		share:   newShare(&c.opts),
		umem:    c.umem,
		mem:     memory.NewTable(maxMR, rand.Uint32),
		steer:   c.steer,
		routes:  c.routes,
		joins:   c.joins,
		mode:    c.mode,
		zero:    c.zero,
		netns:   c.netns,
		done:    make(chan struct{}),
		renamed: make(chan struct{}, 1),
		hurry:   make(chan struct{}),
		link:    c.link,
		numbers: qpnSource{at: rand.Uint32N(maxQPN - minQPN)},
		pds:     map[uint32]*protection{},
		mrs:     map[uint64]*registered{},
		cqs:     map[*cq]struct{}{},
		qps:     map[*qp]struct{}{},
		srqs:    map[*srq]struct{}{},
		buffers: map[uint64]buffer{},
		handles: map[uint32]*handleRoute{},
		xrcds:   map[uint32]*xrcd{},

		rerouting:  make(chan struct{}, 1),
		srqNumbers: map[uint32]struct{}{},
		lastSRQN:   rand.Uint32N(maxSRQN), // one of an earlier run names nothing
	}
	d.tags.Store(newTagSet(nil))
	d.root = newClient(d, &ClientConfig{Name: "device"})
	d.root.privileged = netRaw
	d.clients.Store(&[]*Client{d.root})
	d.linger = linger
	d.breath.init()
	d.workers, d.keptOf = make([]*worker, len(c.ports)), make([]homeKept, len(c.ports))
	keptOf := make([]atomic.Int64, len(c.ports))
	for i := range c.ports {
		d.workers[i] = newWorker(d, i, c.ports[i], c.waiters[i])
		l := d.workers[i].lanes[0]
		l.keptOf = keptOf
		d.root.lanes = append(d.root.lanes, l)
	}
	d.posture.words, _ = queue.NewStates(len(d.workers)) // there are never too many
	d.setWindows()
	return d
}

// start starts the background goroutines.
func (d *Device) start() {
	if d.opts.NoBackground {
		return
	}
	for _, w := range d.workers {
		w.bg.Store(bgAwake)
		d.background.Add(1)
		go w.run()
	}
}

// Name is the name of the interface.
func (d *Device) Name() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.link.name
}

// Renamed has an element when the interface has got another name since the last one
// was taken; Name tells which.
func (d *Device) Renamed() <-chan struct{} { return d.renamed }

// Progress drives all workers once in the caller's goroutine and reports whether
// there was anything to do.
func (d *Device) Progress() bool {
	did := false
	for _, w := range d.workers {
		did = w.poll() || did
	}
	return did
}

// QueryDevice tells limits and identity.
func (d *Device) QueryDevice() (verbs.DeviceAttr, error) {
	if d.closed.Load() {
		return verbs.DeviceAttr{}, ErrClosed
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a := verbs.DeviceAttr{
		Name:           d.link.name,
		FWVersion:      version(),
		NodeGUID:       ibv.EUI64(d.link.mac),
		VendorID:       0xFFFFFF,
		MaxMRSize:      maxMRSize,
		MaxQP:          maxQP,
		MaxQPWR:        ibv.MaxQPWR,
		MaxSGE:         ibv.MaxSGE,
		MaxInline:      ibv.MaxInline,
		MaxCQ:          maxCQ,
		MaxCQE:         ibv.MaxCQE,
		MaxSRQ:         maxSRQ,
		MaxSRQWR:       ibv.MaxQPWR,
		MaxSRQSGE:      ibv.MaxSGE,
		MaxXRCD:        maxXRCD,
		MaxMR:          maxMR,
		MaxMW:          maxMR,
		MaxAH:          maxAH,
		MaxPD:          maxPD,
		MaxMcastGrp:    maxGroups,
		MaxMcastQP:     maxGroupMembers,
		MaxMcastTotal:  maxGroups * maxGroupMembers,
		MaxQPRDAtom:    ibv.MaxRDAtomic,
		MaxQPInitRDAtm: ibv.MaxRDAtomic,
		AtomicGlobal:   true, // they are CPU atomics
		NumPorts:       1,
		NumWorkers:     len(d.workers),
		XDPMode:        d.mode,
		ZeroCopy:       d.zero,
	}
	fillCaps(&a)
	return a, nil
}

// QueryPort tells the state of the port.
func (d *Device) QueryPort() (verbs.PortAttr, error) {
	if d.closed.Load() {
		return verbs.PortAttr{}, ErrClosed
	}
	badPKey, badQKey, err := d.violations()
	if err != nil {
		return verbs.PortAttr{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	state := ibv.PortDown
	if d.link.running && !d.link.gone {
		state = ibv.PortActive
	}
	speed, width := laneSpeed(d.link.speed)
	return verbs.PortAttr{
		State:        state,
		MaxMTU:       ibv.MTU4096,
		ActiveMTU:    d.activeMTU(),
		LinkMTU:      d.link.mtu,
		GIDTableLen:  gidTableLen,
		PKeyTableLen: 1,
		MaxMsgSize:   ibv.MaxMsgSize,
		SpeedMbps:    d.link.speed,
		ActiveSpeed:  speed,
		ActiveWidth:  width,
		BadPKeyCntr:  badPKey,
		QKeyViolCntr: badQKey,
		IfIndex:      d.link.index,
		NetNS:        d.netns,
		MAC:          net.HardwareAddr(d.link.mac[:]),
	}, nil
}

// GIDs is the GID table in index order, up to the last entry in use.
func (d *Device) GIDs() ([]verbs.GIDEntry, error) {
	if d.closed.Load() {
		return nil, ErrClosed
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gids.list(d.link.index), nil
}

// Interrupt ends what waits for neighbours, and will, with ErrClosed: Close is about to come.
func (d *Device) Interrupt() { d.hurryOnce.Do(func() { close(d.hurry) }) }

// Close ends the device: everything that was made on it is gone, the interface
// is as it was. Closing twice is no error.
func (d *Device) Close() error {
	d.closeOnce.Do(func() { d.closeErr = d.close() })
	return d.closeErr
}

func (d *Device) close() error {
	d.mu.Lock()
	d.closed.Store(true)
	d.mu.Unlock()
	d.Interrupt()
	close(d.done)
	for _, w := range d.workers {
		w.wake()
	}
	d.background.Wait()
	// The locks are taken for good: who polls or posts from now on finds them
	// held, who calls anything else is told that the device is closed.
	for _, w := range d.workers {
		w.seize()
	}
	var errs []error
	for _, w := range d.workers {
		errs = append(errs, w.waiter.Close(), w.port.Close())
	}
	if err := d.umem.Close(); err != nil && !errors.Is(err, xsk.ErrClosed) {
		errs = append(errs, err)
	}
	for i := len(d.cleanup) - 1; i >= 0; i-- {
		errs = append(errs, d.cleanup[i]())
	}
	errs = append(errs, d.posture.close())
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, b := range d.buffers {
		delete(d.buffers, k)
		errs = append(errs, unix.Munmap(b.mem))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("datapath: close %s: %w", d.link.name, err)
	}
	return nil
}
