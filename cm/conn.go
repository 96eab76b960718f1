package cm

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Conn is a connected queue pair of type RC, in RTS. Close it in the end,
// whatever has become of the connection.
type Conn struct {
	d   *device
	cfg Config
	id  cmfsm.ID

	local, remote netip.AddrPort
	private       []byte // the peer's
	qp            *verbs.QP
	pd            *verbs.PD
	sendCQ        *verbs.CQ
	recvCQ        *verbs.CQ
	events        *mailbox[cmfsm.Event]

	mu     sync.Mutex
	up     bool // it is, or was, established
	err    error
	done   chan struct{}
	closed sync.Once
	bad    error // of Close
}

func newConn(d *device, cfg Config) *Conn {
	return &Conn{d: d, cfg: cfg, events: newMailbox[cmfsm.Event](), done: make(chan struct{})}
}

// QP is the queue pair. It goes to ERR when the connection ends, and is destroyed by Close.
func (c *Conn) QP() *verbs.QP { return c.qp }

// PD is the protection domain of the queue pair.
func (c *Conn) PD() *verbs.PD { return c.pd }

// SendCQ is where the queue pair's sends complete to.
func (c *Conn) SendCQ() *verbs.CQ { return c.sendCQ }

// RecvCQ is where its receives complete to.
func (c *Conn) RecvCQ() *verbs.CQ { return c.recvCQ }

// LocalAddr is the own address.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// RemoteAddr is the peer's address.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// PrivateData is what the peer said: with its request, MaxDialPrivate bytes, or in
// its answer to ours, MaxAcceptPrivate. Zeros follow what it really said, as the
// length is not transmitted.
func (c *Conn) PrivateData() []byte { return c.private }

// Done is closed when the connection has ended, by whichever side.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is nil while the connection is up, then why it is not: ErrDisconnected,
// ErrRemoved, verbs.ErrClosed after an own Disconnect or Close, or a
// RejectedError when the peer says that it does not know the connection any more.
//
// A peer that vanishes says nothing. Then requests fail, with
// verbs.WCRetryExceeded, as soon as there are some.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// event is told what happens to the id; the lock of the device is held.
func (c *Conn) event(ev cmfsm.Event) {
	var why error
	switch ev.Type {
	case cmfsm.EventEstablished:
		c.mu.Lock()
		c.up = true
		c.mu.Unlock()
	case cmfsm.EventDisconnected:
		why = ErrDisconnected
	case cmfsm.EventRejected:
		why = rejected(&ev)
	case cmfsm.EventDeviceRemoval:
		why = ErrRemoved
	case cmfsm.EventAddrChange, cmfsm.EventTimewaitExit:
		return // a connection outlives its address, should that come back soon
	default:
	}
	c.events.put(ev)
	if why != nil && c.finish(why) && ev.Type == cmfsm.EventDisconnected {
		c.d.laterLocked(c.hangUp)
	}
}

func rejected(ev *cmfsm.Event) error {
	return &RejectedError{Reason: RejectReason(ev.Status), PrivateData: ev.Param.PrivateData}
}

// finish says that the connection has ended. It reports whether it was there, and this
// is the first to say so.
func (c *Conn) finish(why error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.up || c.err != nil {
		return false
	}
	c.err = why
	close(c.done)
	return true
}

// hangUp agrees to the peer's end of the connection. It is harmless after Close.
func (c *Conn) hangUp() {
	_ = c.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.AttrState)
	_ = c.d.client.Disconnect(c.id)
}

// Disconnect ends the connection: the queue pair goes to ERR, where what is
// outstanding is flushed, the peer is told, and Disconnect waits until it agrees or ctx
// ends. Wait for the completions of what must reach the peer before. Close
// does as much without waiting.
func (c *Conn) Disconnect(ctx context.Context) error {
	if !c.finish(verbs.ErrClosed) {
		return nil // it has ended already
	}
	err := c.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.AttrState)
	if err := c.d.client.Disconnect(c.id); err != nil {
		return opErr("disconnect from", c.remote.String(), err)
	}
	for err == nil {
		var ev cmfsm.Event
		if ev, err = c.events.next(ctx); err != nil {
			break
		}
		switch ev.Type {
		case cmfsm.EventDisconnected, cmfsm.EventRejected:
			return nil
		case cmfsm.EventDeviceRemoval:
			err = ErrRemoved
		default:
		}
	}
	if errors.Is(err, errConnClosed) {
		return nil
	}
	return opErr("disconnect from", c.remote.String(), err)
}

var errConnClosed = errors.New("closed")

// Close ends the connection, if it has not ended, and frees all that was made for it: the queue
// pair, and what Config did not have. Twice is no error.
func (c *Conn) Close() error {
	c.closed.Do(func() {
		var errs []error
		c.finish(verbs.ErrClosed)
		if c.qp != nil {
			// An error says that it is there already, or the device is closed.
			_ = c.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.AttrState)
		}
		if c.id != 0 {
			c.d.handle(c.id, nil)
			_ = c.d.client.Destroy(c.id) // it may have gone with the device
		}
		c.events.close(errConnClosed)
		errs = append(errs, c.free())
		c.d.release()
		c.bad = opErr("close connection to", c.remote.String(), errors.Join(errs...))
	})
	return c.bad
}
