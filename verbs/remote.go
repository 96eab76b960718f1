package verbs

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/giveway"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// greetTime is how long a daemon has to answer before a device is open.
const greetTime = 10 * time.Second

// DeviceInfo is a device that a daemon offers.
type DeviceInfo struct {
	Name     string // of its network interface
	NodeGUID uint64
	IfIndex  int    // in the network namespace NetNS
	NetNS    uint64 // the daemon's (SO_NETNS_COOKIE); 0: the device has no interface
	State    PortState
}

// Devices are the devices that this user may open, of the daemon whose runtime
// directory the environment variable ROCE_XDP_RUNTIME_DIR names, /run/roce-xdp by
// default. Errors: ErrNoDaemon, ErrPermission, ErrVersion.
func Devices() ([]DeviceInfo, error) {
	ctx, cancel := context.WithTimeout(context.Background(), greetTime)
	defer cancel()
	s, err := session.Connect(ctx, session.Dir())
	if err != nil {
		return nil, fmt.Errorf("verbs: list devices: %w", fromDaemon(err))
	}
	defer s.Close()
	all, err := devices(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("verbs: list devices: %w", err)
	}
	return all, nil
}

func devices(ctx context.Context, s *session.Session) ([]DeviceInfo, error) {
	entries, err := s.Devices(ctx)
	if err != nil {
		return nil, fromDaemon(err)
	}
	all := make([]DeviceInfo, len(entries))
	for i := range entries {
		e := &entries[i]
		all[i] = DeviceInfo{Name: proto.Text(e.Name[:]), NodeGUID: e.NodeGUID, IfIndex: int(e.IfIndex), NetNS: e.NetNS, State: PortState(min(e.State, 255))}
	}
	return all, nil
}

// Open opens a device of the daemon that Devices asks: that of the interface name,
// or, with an empty name, the only one. The program needs no privileges, and what it
// makes ends with it.
//
// When the daemon ends, the device raises EventDeviceFatal and every call fails with
// ErrClosed; a new Open finds the next daemon. Errors: ErrNoDaemon, ErrNoDevice,
// ErrPermission, ErrLimit, ErrVersion.
func Open(name string) (*Context, error) {
	ctx, cancel := context.WithTimeout(context.Background(), greetTime)
	defer cancel()
	s, err := session.Connect(ctx, session.Dir())
	if err != nil {
		return nil, fmt.Errorf("verbs: open %s: %w", name, fromDaemon(err))
	}
	d, err := openRemote(ctx, s, name)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("verbs: open %s: %w", name, err)
	}
	return NewContext(d), nil
}

func openRemote(ctx context.Context, s *session.Session, name string) (*remote, error) {
	if name == "" {
		var err error
		if name, err = onlyDevice(ctx, s); err != nil {
			return nil, err
		}
	}
	if err := s.Open(ctx, name); err != nil {
		err = fromDaemon(err)
		if all, lerr := devices(ctx, s); lerr == nil && errors.Is(err, ErrNoDevice) {
			err = fmt.Errorf("%w: %s", err, listDevices(all))
		}
		return nil, err
	}
	d := &remote{s: s, name: name, objects: map[remoteID]any{}, hurry: make(chan struct{}), spin: spinShared}
	if runtime.NumCPU() > fewCPUs {
		d.spin = spinOwn
	}
	d.pace.Init(spinGo)
	d.events.init()
	d.pump.Go(d.pumpEvents)
	return d, nil
}

func onlyDevice(ctx context.Context, s *session.Session) (string, error) {
	all, err := devices(ctx, s)
	switch {
	case err != nil:
		return "", err
	case len(all) != 1:
		return "", fmt.Errorf("%w: no name was given, and %s", ErrNoDevice, listDevices(all))
	}
	return all[0].Name, nil
}

func listDevices(all []DeviceInfo) string {
	if len(all) == 0 {
		return "the daemon has no device that this user may open"
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	slices.Sort(names)
	return "the daemon has " + strings.Join(names, ", ")
}

// remote is a device of a daemon. It implements Provider.
type remote struct {
	s    *session.Session
	name string

	mu      sync.Mutex
	objects map[remoteID]any // *remoteQP, *remoteCQ and *remoteSRQ, which events name
	buffers []remoteBuffer   // by address

	procMu sync.Mutex
	proc   bool // SET_MEMORY was done

	hurry     chan struct{} // closed: nobody waits for other hosts any more
	hurryOnce sync.Once

	events remoteEvents
	pump   sync.WaitGroup

	spin  uint32 // empty polls between two yields, a power of two
	pace  giveway.Pace
	empty atomic.Uint32
}

// remoteID is an object of a kind, as messages name it.
type remoteID struct {
	kind   uint32
	handle uint64
}

// Session is the connection to the daemon, for what package verbs does not have.
func (d *remote) Session() *session.Session { return d.s }

// Lost is set when the daemon has ended.
func (d *remote) Lost() *atomic.Bool { return d.s.Lost() }

func (d *remote) Name() string { return d.name }

// Close ends the session. The daemon frees what is left of it.
func (d *remote) Close() error {
	d.events.end(ErrClosed)
	d.s.Close()
	d.pump.Wait()
	return nil
}

// do makes a request.
func (d *remote) do(op proto.Op, req, rep any) error { return fromDaemon(d.s.Do(op, req, rep)) }

// release makes a request that gives something back. What was a dead daemon's is gone
// with it.
func (d *remote) release(op proto.Op, req any) error {
	err := d.do(op, req, nil)
	if err != nil && d.s.Err() != nil {
		return nil
	}
	return err
}

func (d *remote) put(id remoteID, o any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.objects[id] = o
}

// drop forgets an object and its events.
func (d *remote) drop(id remoteID) {
	d.mu.Lock()
	o := d.objects[id]
	delete(d.objects, id)
	d.mu.Unlock()
	if o != nil {
		d.events.forget(o)
	}
}

// ring is the ring that a span names, nil if there is none, and what keeps its memory.
func (d *remote) ring(span *proto.Span) (*queue.Ring, *session.Mapping, error) {
	if span.Size == 0 {
		return nil, nil, nil
	}
	mem, keep, err := d.s.Memory(span, false)
	if err != nil {
		return nil, nil, fromDaemon(err)
	}
	r, err := queue.Open(mem)
	return r, keep, err
}

// How many empty polls there are between two yields: the daemon's worker needs a CPU
// to have anything to tell.
const (
	fewCPUs    = 2
	spinShared = 1
	spinOwn    = 64
	spinGo     = 16 // and between two that let other goroutines run, at least
	tellCPU    = 16 // yields between two times that workers learn on which CPU we are
)

// Progress has nothing to drive, as the daemon does that: it lets others run.
func (d *remote) Progress() bool {
	n := d.empty.Add(1)
	if n&(d.spin-1) == 0 {
		if n&(tellCPU*d.spin-1) == 0 {
			d.s.TellCPU()
		}
		shm.Yield()
	}
	if d.pace.Due(n) {
		d.pace.GiveWay()
	}
	return false
}
