package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// How long the end waits for peers to say that they have heard of it, and how often
// it looks.
const (
	farewell  = 3 * time.Second
	farewells = 10 * time.Millisecond
)

// Shutdown ends the server: it takes no more connections, tells the peers of
// connections, waits a little for their answers, tells the clients that their device
// is gone (DEVICE_FATAL), and frees what they had. It returns ctx's error when that
// ends first; then sessions may still be ending. Serve returns ErrServerClosed.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	var errs []error
	for l := range s.listeners {
		errs = append(errs, l.Close())
	}
	devices := make([]*device, 0, len(s.devices))
	for name, d := range s.devices {
		devices = append(devices, d)
		delete(s.devices, name)
		d.removed.Store(true)
	}
	s.mu.Unlock()
	err := s.dismiss(ctx, s.of(nil))
	s.hush.flush()
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, d := range devices {
		errs = append(errs, d.close())
	}
	return errors.Join(errs...)
}

// RemoveDevice ends the sessions of a device as Shutdown does, and offers it no more.
// When it has returned nil the device may be closed.
func (s *Server) RemoveDevice(ctx context.Context, name string) error {
	s.mu.Lock()
	d := s.devices[name]
	if d == nil {
		s.mu.Unlock()
		return fmt.Errorf("serve: %w: there is no device %s", verbs.ErrInvalid, name)
	}
	delete(s.devices, name)
	d.removed.Store(true)
	s.mu.Unlock()
	if err := s.dismiss(ctx, s.of(d)); err != nil {
		return err
	}
	return d.close()
}

// dismiss ends sessions.
func (s *Server) dismiss(ctx context.Context, list []*session) error {
	for _, n := range list {
		n.disconnect()
	}
	waitForPeers(ctx, list)
	for _, n := range list {
		if r := n.opened(); r != nil {
			r.fatal()
		}
		_ = n.conn.Close() // which ends run
	}
	for _, n := range list {
		select {
		case <-n.done:
		case <-ctx.Done():
			return fmt.Errorf("serve: a client has not ended yet: %w", ctx.Err())
		}
	}
	return nil
}

// disconnect begins the end of the session's connections.
func (s *session) disconnect() {
	if c := s.connections(); c != nil {
		for _, id := range c.list() {
			_ = c.client.Disconnect(id) // of an id that is not connected there is nothing to end
		}
	}
}

// waitForPeers waits until all peers have answered, or for as long as is decent.
func waitForPeers(ctx context.Context, list []*session) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	tick := time.NewTicker(farewells)
	defer tick.Stop()
	for _, n := range list {
		for n.disconnecting() {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

// disconnecting reports whether a peer has yet to answer.
func (s *session) disconnecting() bool {
	c := s.connections()
	if c == nil {
		return false
	}
	for _, id := range c.list() {
		if i, err := c.client.Info(id); err == nil && i.State == cmfsm.StateDREQSent {
			return true
		}
	}
	return false
}

// connections are the session's part of the connection manager, nil if it has none.
func (s *session) connections() *connections {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cm
}
