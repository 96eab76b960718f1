package datapath

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/roce-xdp/roce-xdp/cm/resolve"
)

// netResolver asks the kernel for routes and neighbours.
type netResolver struct {
	from *resolve.Resolver
}

// resolve finds the next hop from src to dst through an interface, and its
// link-layer address, for which it waits until ctx ends, resolve.DefaultWait if that
// has no deadline. Errors: ErrNoRoute, ErrNoNeighbour, ErrClosed, that of ctx when it is
// cancelled.
func (r *netResolver) resolve(ctx context.Context, l leg) (nextHop, error) {
	hop, mac, err := r.from.LinkAddress(ctx, l.oif, l.src, l.dst)
	return nextHop{addr: hop, mac: mac}, err
}

// hop is the address of the next hop.
func (r *netResolver) hop(l leg) (netip.Addr, error) { return r.from.NextHop(l.oif, l.src, l.dst) }

// patiently calls find with a context that ends with ctx, and when the client or the
// device is about to close, which is then the error.
func (c *Client) patiently(ctx context.Context, find func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-c.done:
		case <-c.dev.hurry:
		case <-ctx.Done():
			return
		}
		cancel(ErrClosed)
	}()
	err := find(ctx)
	if err != nil && errors.Is(context.Cause(ctx), ErrClosed) {
		return ErrClosed
	}
	return err
}

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
