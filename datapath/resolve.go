package datapath

import (
	"context"
	"net/netip"
	"time"

	"github.com/roce-xdp/roce-xdp/cm/resolve"
)

// neighbourWait is how long the next hop of a connection has to answer.
const neighbourWait = resolve.DefaultWait

// netResolver asks the kernel for routes and neighbours.
type netResolver struct {
	from   *resolve.Resolver
	closed <-chan struct{} // ends a wait; Device.hurry
}

// resolve finds the next hop from src to dst through an interface, and its
// link-layer address. Errors: ErrNoRoute, ErrNoNeighbour, ErrClosed.
func (r *netResolver) resolve(l leg) (nextHop, error) {
	ctx, cancel := context.WithTimeout(lifetime(r.closed), neighbourWait)
	defer cancel()
	hop, mac, err := r.from.LinkAddress(ctx, l.oif, l.src, l.dst)
	return nextHop{addr: hop, mac: mac}, err
}

// hop is the address of the next hop.
func (r *netResolver) hop(l leg) (netip.Addr, error) { return r.from.NextHop(l.oif, l.src, l.dst) }

// lifetime is a context that ends with a device.
type lifetime <-chan struct{}

func (l lifetime) Deadline() (time.Time, bool) { return time.Time{}, false }
func (l lifetime) Done() <-chan struct{}       { return l }
func (l lifetime) Value(any) any               { return nil }

// Err is ErrClosed once the device is closed.
func (l lifetime) Err() error {
	select {
	case <-l:
		return ErrClosed
	default:
		return nil
	}
}
