package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/cm/resolve"
	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Open makes a device of an interface of the calling thread's network namespace.
// nil options are the defaults. The device is closed by Context.Close.
func Open(ifname string, opts *Options) (*verbs.Context, error) {
	d, err := OpenDevice(ifname, opts)
	if err != nil {
		return nil, err
	}
	return verbs.NewContext(d), nil
}

// OpenDevice is Open for tools that want the device itself.
func OpenDevice(ifname string, opts *Options) (*Device, error) {
	o := &opening{name: ifname}
	d, err := o.open(opts)
	if err != nil {
		for i := len(o.undo) - 1; i >= 0; i-- {
			_ = o.undo[i]() // the first error is the one to report
		}
		return nil, fmt.Errorf("datapath: open %s: %w", ifname, err)
	}
	return d, nil
}

// CheckInterface reports why Open would refuse an interface whatever its options are: that
// there is none of that name, or that it cannot carry RoCE. It needs no privileges.
func CheckInterface(ifname string) error {
	o := &opening{name: ifname}
	err := o.findLink()
	for _, undo := range o.undo {
		_ = undo() // closes netlink
	}
	if err != nil {
		return fmt.Errorf("datapath: open %s: %w", ifname, err)
	}
	return nil
}

// opening holds what has been made of a device so far.
type opening struct {
	name   string
	undo   []func() error
	handle *netlink.Handle
	link   netlink.Link
	info   linkInfo
	opts   Options
	steer  *bpf.Steer
	early  []netip.Addr // that the program knows since before it was attached
	umem   *xsk.UMEM
	socks  []*xsk.Socket
	joins  *kernelJoiner
	paths  *resolve.Resolver
}

func (o *opening) open(opts *Options) (*Device, error) {
	if err := o.findLink(); err != nil {
		return nil, err
	}
	queues, speed := channels(o.name)
	o.info.speed = speed
	var err error
	if o.opts, err = opts.complete(queues, runtime.NumCPU()); err != nil {
		return nil, err
	}
	if err := o.loadProgram(); err != nil {
		return nil, err
	}
	if err := o.openSockets(); err != nil {
		return nil, err
	}
	if o.joins, err = newKernelJoiner(o.info.index); err != nil {
		return nil, err
	}
	o.undo = append(o.undo, o.joins.close)
	if o.paths, err = resolve.New(); err != nil {
		return nil, err
	}
	o.undo = append(o.undo, o.paths.Close)
	c := config{
		opts: o.opts, umem: o.umem, link: o.info, steer: o.steer, joins: o.joins,
		mode: o.steer.AttachedMode().String(), zero: o.socks[0].ZeroCopy(),
	}
	for _, s := range o.socks {
		w, err := xsk.NewWaiter(s)
		if err != nil {
			return nil, err
		}
		o.undo = append(o.undo, w.Close)
		c.ports, c.waiters = append(c.ports, s), append(c.waiters, w)
	}
	if c.netns, err = resolve.Namespace(); err != nil {
		return nil, err
	}
	d := newDevice(c)
	d.hops = newHopCache(&netResolver{from: o.paths})
	d.routes, d.paths = d.hops, o.paths
	return d, o.start(d)
}

// start joins the device with the world: from here on Device.Close undoes all.
func (o *opening) start(d *Device) error {
	m, err := newMonitor(d, o.handle, o.info.index)
	if err != nil {
		return err
	}
	list, uppers, err := ownOf(o.handle, o.link)
	if err == nil {
		m.uppers = uppers
		err = errors.Join(d.setOwn(list), o.dropEarly(d))
	}
	if err != nil {
		m.socket.Close()
		return errors.Join(fmt.Errorf("read the addresses: %w", err), unix.Close(m.fd))
	}
	d.root.events.drain() // of the addresses that were there from the start
	go m.run()
	d.cleanup = []func() error{
		func() error { o.handle.Close(); return nil },
		o.steer.Close,
		o.joins.close,
		o.paths.Close,
		m.close,
	}
	d.start()
	return nil
}

// findLink finds the interface and checks that it can carry RoCE.
func (o *opening) findLink() error {
	var err error
	if o.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	o.undo = append(o.undo, func() error { o.handle.Close(); return nil })
	if o.link, err = o.handle.LinkByName(o.name); err != nil {
		var missing netlink.LinkNotFoundError
		if errors.As(err, &missing) {
			return fmt.Errorf("%w in this network namespace: it has %s", ErrNoInterface, o.others())
		}
		return err
	}
	o.info = linkInfoOf(o.link)
	switch a := o.link.Attrs(); {
	case len(a.HardwareAddr) != len(o.info.mac) || o.info.mac == [6]byte{}:
		return fmt.Errorf("%w: it has no Ethernet address (type %s); use an Ethernet interface", ErrInterface, o.link.Type())
	case activeMTU(a.MTU) == 0:
		need := ibv.MTU256.Bytes() + headroomMTU
		return fmt.Errorf("%w: its MTU is %d, and the smallest path MTU needs %d: ip link set %s mtu %d", ErrInterface, a.MTU, need, o.name, need)
	}
	return nil
}

// others lists the interfaces that there are.
func (o *opening) others() string {
	links, err := o.handle.LinkList()
	if err != nil || len(links) == 0 {
		return "none"
	}
	names := make([]string, len(links))
	for i := range links {
		names[i] = links[i].Attrs().Name
	}
	return strings.Join(names, ", ")
}

// loadProgram loads the XDP program and attaches it.
func (o *opening) loadProgram() error {
	steer, err := bpf.Load(&bpf.Options{Queues: o.opts.Queues, UnknownQPN: o.opts.UnknownQPN, NoSocket: o.opts.NoSocket, PinDir: o.opts.PinDir})
	if err != nil {
		return err
	}
	o.steer = steer
	o.undo = append(o.undo, steer.Close)
	if err := o.addEarly(); err != nil {
		return err
	}
	if err := steer.Attach(o.info.index, o.opts.Mode); err != nil {
		return err
	}
	if !steer.TookOver() { // what fails from here on leaves no pins that it has made
		o.undo = append(o.undo, steer.Unpin)
	}
	return nil
}

// addEarly tells a program that takes the place of another the addresses before it does:
// the kernel gets none of their frames in between.
func (o *opening) addEarly() error {
	if o.opts.PinDir == "" {
		return nil
	}
	list, _, err := ownOf(o.handle, o.link)
	if err != nil {
		return fmt.Errorf("read the addresses: %w", err)
	}
	for _, a := range append(list, staticAddrs(o.opts.VLANAddrs)...) {
		if err := o.steer.AddAddress(a.addr); err == nil { // else setOwn has the same error, to report
			o.early = append(o.early, a.addr)
		}
	}
	return nil
}

// dropEarly takes back those that have gone since.
func (o *opening) dropEarly(d *Device) error {
	var errs []error
	for _, a := range o.early {
		d.mu.Lock()
		own := d.gids.has(a)
		d.mu.Unlock()
		if !own {
			errs = append(errs, o.steer.DelAddress(a))
		}
	}
	return errors.Join(errs...)
}

// openSockets makes a socket for each queue, all on one UMEM.
func (o *opening) openSockets() error {
	s := newShare(&o.opts)
	var err error
	o.umem, err = xsk.NewUMEM(xsk.UMEMConfig{
		Frames: s.frames() * o.opts.Queues, FrameSize: o.opts.FrameSize, HugePages: o.opts.HugePages,
	})
	if err != nil {
		return err
	}
	o.undo = append(o.undo, o.umem.Close)
	for q := range o.opts.Queues {
		sock, err := xsk.NewSocket(o.info.index, q, &xsk.Options{
			UMEM:     o.umem,
			FillSize: o.opts.RingSize, RxSize: o.opts.RingSize, TxSize: o.opts.RingSize, CompSize: o.opts.RingSize,
			Mode: o.opts.Socket, MultiBuffer: true, BusyPoll: o.opts.BusyPoll,
		})
		if err != nil {
			return err
		}
		o.undo = append(o.undo, sock.Close)
		o.socks = append(o.socks, sock)
		if err := o.steer.Register(q, sock.FD()); err != nil {
			return err
		}
	}
	return nil
}
