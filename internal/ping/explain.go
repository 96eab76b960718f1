package ping

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// explain says of a client's error what it usually comes from, where those that it is
// made of do not.
func (c *client) explain(ctx context.Context, server netip.AddrPort, err error) error {
	var failed *verbs.CompletionError
	switch {
	case err == nil, ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return err
	case errors.Is(err, context.DeadlineExceeded) && c.conn == nil:
		return fmt.Errorf("%w from %v within %v: no RDMA adapter may be at that address, no program use its connection manager, "+
			"or a firewall drop UDP port 4791 on the way", ErrNoAnswer, server, c.Timeout)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w from %v within %v, although it is connected: its program may have stopped, "+
			"or the link lose all packets of some size: try a smaller -S", ErrNoAnswer, server, c.Timeout)
	case errors.As(err, &failed) && failed.Status == verbs.WCRetryExceeded:
		return fmt.Errorf("%w from %v any more: its program was killed, its host is down, or the link is: %w", ErrNoAnswer, server, err)
	case errors.As(err, &failed) && failed.Status == verbs.WCRemoteOperation:
		return fmt.Errorf("%v takes nothing any more: its program was killed, or it has failed: %w", server, err)
	case errors.Is(err, cm.ErrDisconnected):
		return fmt.Errorf("%v has ended the connection: %w: its buffer may be smaller than -S %d, or its program was ended", server, err, c.Size)
	case errors.Is(err, cm.ErrNoListener) && c.own(server.Addr()):
		return fmt.Errorf("%w; %v is an address of this host's own: a server in another program needs an interface of its own", err, server.Addr())
	}
	return err
}

// own reports whether an address is one of the device.
func (c *client) own(a netip.Addr) bool {
	_, err := c.dev.GIDIndex(a)
	return err == nil
}
