package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// A connection of a crowd has a message of text, and a place to receive one behind it.
const (
	crowdText = 100
	crowdSlot = 2 * crowdText
	crowdTime = 100 * time.Second
)

// throng is our end of many connections over shared memory.
type throng struct {
	m          *meeting
	pd         *verbs.PD
	mr         *verbs.MR
	buf        []byte
	up, upMost atomic.Int32 // connections that are established, and the most there were
}

// crowd makes n connections, width of them at a time: all of a batch carry a message and
// its echo before the first of them ends.
func crowd(n, width int) func(*meeting) error {
	return func(m *meeting) (err error) {
		c := &throng{m: m}
		if err := c.open(width); err != nil {
			return errors.Join(err, c.close())
		}
		defer func() { err = errors.Join(err, c.close()) }()
		if m.dial {
			return c.dialAll(n, width)
		}
		return c.serveAll(n, width)
	}
}

func (c *throng) open(width int) (err error) {
	if c.pd, err = c.m.dev.AllocPD(); err != nil {
		return err
	}
	if c.buf, err = c.m.dev.AllocBuffer(width * crowdSlot); err != nil {
		return err
	}
	c.mr, err = c.pd.RegisterMemory(c.buf, verbs.AccessLocalWrite)
	return err
}

func (c *throng) close() error {
	var errs []error
	if c.mr != nil {
		errs = append(errs, c.mr.Deregister())
	}
	if c.buf != nil {
		errs = append(errs, c.m.dev.FreeBuffer(c.buf))
	}
	if c.pd != nil {
		errs = append(errs, c.pd.Dealloc())
	}
	return errors.Join(errs...)
}

// config is that of the connection in a slot, with a receive.
func (c *throng) config(slot int, private []byte) *cm.Config {
	return &cm.Config{
		PD: c.pd, SigAll: true, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}, PrivateData: private,
		Prepare: func(q *verbs.QP) error {
			return q.PostRecv(&verbs.RecvWR{WRID: 1, SGList: []verbs.SGE{c.mr.SGE(slot*crowdSlot+crowdText, crowdText)}})
		},
	}
}

// rise counts a connection that is established.
func (c *throng) rise() {
	n := c.up.Add(1)
	for most := c.upMost.Load(); n > most && !c.upMost.CompareAndSwap(most, n); most = c.upMost.Load() {
	}
}

// send sends n bytes of a slot from offset off.
func (c *throng) send(conn *cm.Conn, slot, off, n int) error {
	return conn.QP().PostSend(&verbs.SendWR{Opcode: verbs.OpSend, SGList: []verbs.SGE{c.mr.SGE(slot*crowdSlot+off, n)}})
}

// completes waits for n successful completions, and returns the length of the message
// among them.
func completes(ctx context.Context, conn *cm.Conn, n int) (length int, err error) {
	var wcs [1]verbs.WC
	for range n {
		if _, err := conn.RecvCQ().Wait(ctx, wcs[:]); err != nil {
			return 0, err
		}
		if err := wcs[0].Err(); err != nil {
			return 0, err
		}
		if wcs[0].Opcode == verbs.WCRecv {
			length = int(wcs[0].ByteLen)
		}
	}
	return length, nil
}

// dialAll has the guest serve n connections of ours.
func (c *throng) dialAll(n, width int) error {
	if err := c.m.guest.listen(c.m.family, c.m.port, portSpaceTCP); err != nil {
		return err
	}
	var served struct{ Served, Most int }
	there := make(chan error, 1)
	go func() {
		there <- c.m.guest.call("serve", fields{"n": n, "seconds": crowdTime.Seconds()}, crowdTime, &served)
	}()
	for made := 0; made < n; made += width {
		if err := c.batch(made, width); err != nil {
			return fmt.Errorf("after %d connections: %w", made, err)
		}
	}
	if err := <-there; err != nil {
		return err
	}
	if served.Served != n || served.Most != width || int(c.upMost.Load()) != width {
		return fmt.Errorf("the guest has served %d connections, %d at a time; here %d were up at a time; want %d, %d", served.Served, served.Most, c.upMost.Load(), n, width)
	}
	return nil
}

// batch makes width connections at once and ends them.
func (c *throng) batch(first, width int) error {
	errs := make([]error, width)
	conns := make([]*cm.Conn, width)
	var all sync.WaitGroup
	for slot := range width {
		all.Go(func() { conns[slot], errs[slot] = c.dialOne(first+slot, slot) })
	}
	all.Wait()
	for slot := range width {
		if conns[slot] == nil {
			continue
		}
		all.Go(func() {
			c.up.Add(-1)
			errs[slot] = errors.Join(errs[slot], conns[slot].Disconnect(c.m.ctx), conns[slot].Close())
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// dialOne makes connection number k, which carries a message there and back.
func (c *throng) dialOne(k, slot int) (*cm.Conn, error) {
	private := data(fmt.Sprint("private ", k), cm.MaxDialPrivate)
	conn, err := cm.Dial(c.m.ctx, c.m.dev, c.m.theirs(), c.config(slot, private))
	if err != nil {
		return nil, err
	}
	c.rise()
	if err := carries("REP", conn.PrivateData(), private, cm.MaxAcceptPrivate); err != nil {
		return conn, err
	}
	own := c.buf[slot*crowdSlot:][:crowdSlot]
	copy(own, data(fmt.Sprint("message ", k), crowdText))
	if err := c.send(conn, slot, 0, crowdText); err != nil {
		return conn, err
	}
	length, err := completes(c.m.ctx, conn, 2)
	if err == nil && (length != crowdText || !bytes.Equal(own[:crowdText], own[crowdText:])) {
		err = fmt.Errorf("%d bytes came back, of %d, or others", length, crowdText)
	}
	return conn, err
}

// serveAll serves n connections of the guest, which looks at what comes back.
func (c *throng) serveAll(n, width int) error {
	l, err := cm.Listen(c.m.dev, c.m.own(), nil)
	if err != nil {
		return err
	}
	defer l.Close()
	made := 0
	there := make(chan error, 1)
	go func() {
		there <- c.m.guest.call("cycles", fields{
			"n": n, "width": width, "seconds": crowdTime.Seconds(), "addr": c.m.family.ours.String(), "port": c.m.port,
		}, crowdTime, &made)
	}()
	slots := make(chan int, width)
	for slot := range width {
		slots <- slot
	}
	ctx, cancel := context.WithCancelCause(c.m.ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for k := range n {
		r, err := l.Request(ctx)
		if err != nil {
			all.Wait()
			return errors.Join(context.Cause(ctx), err, <-there)
		}
		slot := <-slots
		all.Go(func() {
			if err := c.serveOne(ctx, r, slot); err != nil {
				cancel(fmt.Errorf("connection %d: %w", k, err))
			}
			slots <- slot
		})
	}
	all.Wait()
	if err := errors.Join(context.Cause(ctx), <-there); err != nil {
		return err
	}
	if made != n || int(c.upMost.Load()) != width {
		return fmt.Errorf("the guest has made %d connections, %d at a time, want %d and %d", made, c.upMost.Load(), n, width)
	}
	return nil
}

// serveOne accepts with the private data of the request, echoes one message and waits for
// the guest to end the connection.
func (c *throng) serveOne(ctx context.Context, r *cm.Request, slot int) error {
	conn, err := r.AcceptWith(ctx, c.config(slot, r.PrivateData()))
	if err != nil {
		return err
	}
	c.rise()
	length, err := completes(ctx, conn, 1)
	if err == nil {
		err = c.send(conn, slot, crowdText, length)
	}
	if err == nil {
		_, err = completes(ctx, conn, 1)
	}
	if err == nil {
		select {
		case <-conn.Done():
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	c.up.Add(-1)
	return errors.Join(err, conn.Close())
}
