package perf

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// meetTime is how long one queue pair may take to be connected over the connection
// manager: longer than a host takes that has the packets of several seconds lost.
const meetTime = 20 * time.Second

// ticket is the private data of each connection request of a test: 16 bytes by which the
// server knows its client, and the index of the queue pair.
const (
	secretLen = 16
	ticketLen = secretLen + 4
)

// meeting is where the server waits for connection requests, and by what it knows those of
// this test.
type meeting struct {
	Addr   netip.AddrPort `json:"addr"`
	Secret []byte         `json:"secret"`
}

func (m *meeting) ticket(i int) []byte {
	return binary.BigEndian.AppendUint32(bytes.Clone(m.Secret), uint32(i))
}

func (m *meeting) check() error {
	if len(m.Secret) != secretLen || !m.Addr.IsValid() {
		return fmt.Errorf("%w: no address to connect to", connect.ErrProtocol)
	}
	return nil
}

// config is how the i-th queue pair is connected.
func (e *End) config(i int, private []byte) *cm.Config {
	return &cm.Config{
		PD: e.pd, SendCQ: e.cq, RecvCQ: e.cq, Cap: e.capacity(), Context: uint64(i), Prepare: e.postReceives,
		PrivateData: private, LocalAddr: e.address(), MaxMTU: e.path.MTU, TOS: e.path.TrafficClass,
		ResponderResources: e.p.Outstanding, InitiatorDepth: e.p.Outstanding, Access: e.path.Access,
	}
}

// listen waits for connection requests at the end's address.
func (e *End) listen() (*cm.Listener, *meeting, error) {
	m := &meeting{Secret: make([]byte, secretLen)}
	rand.Read(m.Secret)
	l, err := cm.Listen(e.dev, e.address().String(), e.config(0, nil))
	if err != nil {
		return nil, nil, err
	}
	m.Addr = unzoned(l.Addr())
	return l, m, nil
}

// address is the end's, with any port.
func (e *End) address() netip.AddrPort {
	return netip.AddrPortFrom(ibv.WithScope(e.gid.GID.Addr(), uint32(e.gid.IfIndex)), 0)
}

// unzoned is an address as the other end knows it, whose interfaces are others.
func unzoned(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().WithZone(""), a.Port())
}

// accept takes the connections of all queue pairs, in the order in which the client asks.
func (e *End) accept(ctx context.Context, l *cm.Listener, m *meeting) error {
	for len(e.conns) < e.p.QPs {
		if err := e.acceptOne(ctx, l, m); err != nil {
			return err
		}
	}
	return nil
}

func (e *End) acceptOne(ctx context.Context, l *cm.Listener, m *meeting) error {
	ctx, cancel := context.WithTimeout(ctx, meetTime)
	defer cancel()
	i := len(e.conns)
	r, err := l.Request(ctx)
	if err != nil {
		return e.late(ctx, i, err)
	}
	if !bytes.HasPrefix(r.PrivateData(), m.ticket(i)) {
		return r.Reject(nil) // not this test's client
	}
	c, err := r.AcceptWith(ctx, e.config(i, nil))
	if err != nil {
		return e.late(ctx, i, err)
	}
	return e.connected(c)
}

// dial connects all queue pairs to the server's.
func (e *End) dial(ctx context.Context, m *meeting) error {
	for i := range e.p.QPs {
		if err := e.dialOne(ctx, m, i); err != nil {
			return err
		}
	}
	return nil
}

func (e *End) dialOne(ctx context.Context, m *meeting, i int) error {
	ctx, cancel := context.WithTimeout(ctx, meetTime)
	defer cancel()
	c, err := cm.Dial(ctx, e.dev, unzoned(m.Addr).String(), e.config(i, m.ticket(i)))
	if err != nil {
		return e.late(ctx, i, err)
	}
	return e.connected(c)
}

// late says what it usually means that time is over.
func (e *End) late(ctx context.Context, i int, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("queue pair %d is not connected after %v: a firewall may drop UDP port 4791 on the way: %w", i, meetTime, err)
	}
	return err
}

// connected takes a connection into the test.
func (e *End) connected(c *cm.Conn) error {
	e.conns, e.qps = append(e.conns, c), append(e.qps, c.QP())
	attr, err := c.QP().Query()
	if err != nil {
		return err
	}
	e.path.MTU = attr.PathMTU
	own := connect.Local(c.QP(), e.gid, e.mr)
	own.PSN = attr.SQPSN
	e.own = append(e.own, own)
	return nil
}

// meet connects this side's queue pairs with the peer's over the connection manager and
// tells each side about the other's memory. It ends when the peer gives up.
func (s *session) meet(ctx context.Context) (peer []connect.Endpoint, err error) {
	work, err := s.appointment()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	received := make(chan error, 1)
	go func() {
		err := s.ch.Receive(&peer)
		if err != nil {
			cancel()
		}
		received <- err
	}()
	err = work(ctx)
	if err == nil {
		err = s.ch.Send(s.end.Endpoints())
	}
	if err != nil && ctx.Err() == nil {
		s.ch.Fail(err)
		s.ch.Close()
		<-received
		return nil, err
	}
	if err := <-received; err != nil {
		return nil, err
	}
	return peer, s.end.Meet(peer)
}

// appointment tells the client where to connect to, and returns what connects.
func (s *session) appointment() (work func(context.Context) error, err error) {
	if s.Server != "" {
		m := &meeting{}
		if err := s.ch.Receive(m); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return s.end.dial(ctx, m) }, m.check()
	}
	l, m, err := s.end.listen()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		defer l.Close()
		return s.end.accept(ctx, l, m)
	}, s.ch.Send(m)
}
