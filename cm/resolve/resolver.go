package resolve

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// DefaultWait is how long the next hop has to answer when the context has no
// deadline: the kernel asks three times, a second apart.
const DefaultWait = 3 * time.Second

// Resolver asks the kernel, in the network namespace in which it was made. Its
// methods are safe for concurrent use.
type Resolver struct {
	links  *netlink.Handle // for interfaces and addresses
	socket *nl.NetlinkSocket
	asker  map[int]*nl.SocketHandle // socket, as requests want it
	probe  *probe

	using sync.RWMutex // held for reading by who uses the above
	once  sync.Once
	done  chan struct{} // closed: nobody may any more
}

// New makes a resolver for the namespace of the calling thread.
func New() (*Resolver, error) {
	links, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE)
	if err != nil {
		links.Close()
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	p, err := newProbe()
	if err != nil {
		links.Close()
		socket.Close()
		return nil, err
	}
	return &Resolver{
		links: links, socket: socket, probe: p, done: make(chan struct{}),
		asker: map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: socket}},
	}, nil
}

// Close ends what waits, with ErrClosed, and frees the resolver.
func (r *Resolver) Close() (err error) {
	r.once.Do(func() {
		close(r.done)
		r.using.Lock()
		defer r.using.Unlock()
		r.links.Close()
		r.socket.Close()
		err = r.probe.close()
	})
	return err
}

// use begins a call, which ends with r.using.RUnlock.
func (r *Resolver) use() error {
	r.using.RLock()
	select {
	case <-r.done:
		r.using.RUnlock()
		return ErrClosed
	default:
		return nil
	}
}

// Resolve finds out how a peer is reached and waits for the next hop to answer,
// until ctx ends, at most DefaultWait if ctx has no deadline. An own address is
// answered at once. Errors: ErrInvalid, ErrNoDevice, ErrNoSource, ErrNoRoute,
// ErrNoNeighbour, ErrClosed; that of ctx when it is cancelled.
//
// With an error that is ErrNoNeighbour the result has all but the link-layer
// address of the next hop.
func (r *Resolver) Resolve(ctx context.Context, req *verbs.ResolveRequest) (verbs.Resolution, error) {
	if err := r.use(); err != nil {
		return verbs.Resolution{}, err
	}
	defer r.using.RUnlock()
	res, err := r.route(req)
	if err != nil {
		return res, err
	}
	return r.neighbourOf(ctx, res)
}

// Neighbour completes what Route has found: it is the second half of Resolve.
func (r *Resolver) Neighbour(ctx context.Context, res verbs.Resolution) (verbs.Resolution, error) {
	if err := r.use(); err != nil {
		return verbs.Resolution{}, err
	}
	defer r.using.RUnlock()
	return r.neighbourOf(ctx, res)
}

func (r *Resolver) neighbourOf(ctx context.Context, res verbs.Resolution) (verbs.Resolution, error) {
	if res.Local || res.Dst.IsMulticast() {
		return res, nil
	}
	n, err := r.await(ctx, leg{res.IfIndex, res.Src, res.NextHop})
	res.DstMAC, res.Neighbour = n.mac, n.state.String()
	return res, r.explain(err, res.IfIndex, res.NextHop, res.Dst)
}

// Route is what Resolve finds without asking anybody but the kernel: DstMAC may
// be zero. Errors are those of Resolve but ErrNoNeighbour.
func (r *Resolver) Route(req *verbs.ResolveRequest) (verbs.Resolution, error) {
	if err := r.use(); err != nil {
		return verbs.Resolution{}, err
	}
	defer r.using.RUnlock()
	return r.route(req)
}

func (r *Resolver) route(req *verbs.ResolveRequest) (verbs.Resolution, error) {
	w, err := r.understand(req)
	if err != nil {
		return verbs.Resolution{}, err
	}
	return r.find(w)
}

// NextHop is the next hop from src to dst through the interface of an index:
// dst, or a gateway. Errors: ErrNoRoute, ErrClosed.
func (r *Resolver) NextHop(oif int, src, dst netip.Addr) (netip.Addr, error) {
	if err := r.use(); err != nil {
		return netip.Addr{}, err
	}
	defer r.using.RUnlock()
	return r.nextHop(oif, src, dst)
}

func (r *Resolver) nextHop(oif int, src, dst netip.Addr) (netip.Addr, error) {
	a, err := r.reach(question{oif: oif, src: src, dst: dst})
	if err != nil {
		return netip.Addr{}, err
	}
	return a.hop(dst), nil
}

// LinkAddress is the next hop from src to dst through the interface of an index,
// with its link-layer address, for which it waits as Resolve does. Errors:
// ErrNoRoute, ErrNoNeighbour, ErrClosed; that of ctx when it is cancelled.
func (r *Resolver) LinkAddress(ctx context.Context, oif int, src, dst netip.Addr) (hop netip.Addr, mac [6]byte, err error) {
	if err := r.use(); err != nil {
		return hop, mac, err
	}
	defer r.using.RUnlock()
	if hop, err = r.nextHop(oif, src, dst); err != nil {
		return hop, mac, err
	}
	n, err := r.await(ctx, leg{oif, src, hop})
	return hop, n.mac, r.explain(err, oif, hop, dst)
}

// explain makes an error of await one that a person understands.
func (r *Resolver) explain(err error, oif int, hop, dst netip.Addr) error {
	var silent *silence
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &silent):
		return err
	}
	what := "the peer is down or not on this network"
	switch link, err := r.links.LinkByIndex(oif); {
	case err == nil && link.Attrs().RawFlags&unix.IFF_RUNNING == 0:
		what = "the link has no carrier"
	case hop != dst:
		what = fmt.Sprintf("it is the gateway to %s", dst)
	}
	return fmt.Errorf("%w: nobody answered for %s on %s within %v (%s)", ErrNoNeighbour, hop, r.nameOf(oif), silent.waited, what)
}

// nameOf names an interface in errors.
func (r *Resolver) nameOf(index int) string {
	if l, err := r.links.LinkByIndex(index); err == nil {
		return l.Attrs().Name
	}
	return fmt.Sprintf("interface %d", index)
}
