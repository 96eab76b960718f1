package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// withZeros is private data of full length, with a zero at its begin and within.
func withZeros(seed string, n int) []byte {
	b := data(seed, n)
	b[0], b[n/2], b[n-1] = 0, 0, 0xff
	return b
}

// side is our side of a connection, with memory for a trial.
func (m *meeting) side() (*local, error) {
	l := &local{ctx: m.ctx, dev: m.dev}
	return l, l.prepare(regionLen)
}

// joined is a connection with memory at both ends.
type joined struct {
	conn     *cm.Conn
	own      *local
	ownEnd   endpoint
	guestEnd endpoint
}

// join connects as agreed, with memory at our end.
func (m *meeting) join(c *contract) (j *joined, err error) {
	own, err := m.side()
	if err != nil {
		return nil, errors.Join(err, own.close())
	}
	if c.cfg == nil {
		c.cfg = &cm.Config{}
	}
	c.cfg.PD, c.cfg.SendCQ, c.cfg.SigAll, c.cfg.Cap = own.pd, own.cq, true, verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64}
	j = &joined{own: own, ownEnd: endpoint{RKey: own.mr.RKey(), Addr: own.mr.Addr()}}
	if j.conn, err = m.connect(c); err == nil {
		j.guestEnd, err = m.guest.region()
	}
	if err != nil {
		return nil, errors.Join(err, j.close())
	}
	own.qp = j.conn.QP()
	return j, nil
}

func (j *joined) close() error {
	j.own.qp = nil // it goes with the connection
	return errors.Join(closeConn(j.conn), j.own.close())
}

// trial is one with us as requester, or with the guest.
func (m *meeting) trial(j *joined, ours bool) *trial {
	t := &trial{params: usual(m.family, 4096), req: m.guest, resp: j.own, respEnd: j.ownEnd, from: source, to: target}
	if ours {
		t.req, t.resp, t.respEnd = j.own, m.guest, j.guestEnd
	}
	return t
}

// connectAndTransfer has both ends say all that there is room for, and move data both
// ways over the queue pairs that come of it.
func connectAndTransfer(m *meeting) (err error) {
	c := &contract{
		request: withZeros("request", cm.MaxDialPrivate), answer: withZeros("answer", cm.MaxAcceptPrivate),
		cfg: &cm.Config{ResponderResources: 3, InitiatorDepth: 2}, guest: offer{resources: 2, depth: 3},
	}
	if !m.dial {
		c.cfg.ResponderResources, c.cfg.InitiatorDepth = 0, 0 // as much as the guest offers
	}
	j, err := m.join(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	if err := m.agreed(j); err != nil {
		return err
	}
	for _, ours := range []bool{true, false} {
		t := m.trial(j, ours)
		for _, n := range []int{0, 1, 1025, 65536} {
			for _, op := range []func(*trial, int, string){send(verbs.OpSend), write(verbs.OpRDMAWrite), read} {
				op(t, n, fmt.Sprintf("%s %d", t.req.name(), n))
			}
		}
		fetchAdd(t)
		if t.err != nil {
			return t.err
		}
	}
	return m.endHere(j)
}

// agreed demands that the queue pairs are as the ends have said.
func (m *meeting) agreed(j *joined) error {
	q, err := j.conn.QP().Query()
	if err != nil {
		return err
	}
	const out, in = 2, 3 // as connectAndTransfer has it, seen from here
	if q.State != verbs.QPStateRTS || q.PathMTU != verbs.MTU4096 || q.MaxRDAtomic != out || q.MaxDestRDAtomic != in {
		return fmt.Errorf("our queue pair is in %v with %d bytes, %d READs out and %d in, want RTS, 4096, %d and %d",
			q.State, q.PathMTU.Bytes(), q.MaxRDAtomic, q.MaxDestRDAtomic, out, in)
	}
	state, mtu, err := m.guest.query()
	if err == nil && (state != int(verbs.QPStateRTS) || mtu != int(verbs.MTU4096)) {
		err = fmt.Errorf("the guest's queue pair is in state %d with path MTU code %d", state, mtu)
	}
	return err
}

// endHere ends the connection from here.
func (m *meeting) endHere(j *joined) error {
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(m.ctx, eventTime)
		defer cancel()
		ended <- j.conn.Disconnect(ctx)
	}()
	_, err := m.guest.event("DISCONNECTED")
	if err == nil {
		err = m.guest.disconnect() // it agrees
	}
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	if err := j.conn.Err(); !errors.Is(err, verbs.ErrClosed) {
		return fmt.Errorf("the connection has ended with %w, want ErrClosed", err)
	}
	return m.inError(j)
}

// inError demands that both queue pairs take no part any more.
func (m *meeting) inError(j *joined) error {
	own, err := j.own.state()
	if err != nil {
		return err
	}
	theirs, err := m.guest.state()
	if err == nil && (own != verbs.QPStateErr || theirs != verbs.QPStateErr) {
		err = fmt.Errorf("queue pairs are in %v and, the guest's, %v, want ERR", own, theirs)
	}
	return err
}

func disconnectHere(m *meeting) error {
	j, err := m.join(&contract{guest: offer{resources: 1, depth: 1}})
	if err != nil {
		return err
	}
	return errors.Join(m.endHere(j), j.close())
}

// disconnectThere has the guest end it, with a receive of ours outstanding.
func disconnectThere(m *meeting) (err error) {
	j, err := m.join(&contract{guest: offer{resources: 1, depth: 1}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	if err := j.own.recv(7, target, 64); err != nil {
		return err
	}
	if err := m.guest.disconnect(); err != nil {
		return err
	}
	if err := m.over(j); err != nil {
		return err
	}
	t := m.trial(j, true)
	t.completes(j.own, 7, verbs.WCFlushed)
	if t.err != nil {
		return t.err
	}
	if _, err := m.guest.event("DISCONNECTED"); err != nil { // we have agreed
		return err
	}
	return m.inError(j)
}

// over demands that the peer's end of the connection is noticed.
func (m *meeting) over(j *joined) error {
	select {
	case <-j.conn.Done():
	case <-time.After(lifetime):
		return fmt.Errorf("the connection is up %v after the guest has ended it", lifetime)
	case <-m.ctx.Done():
		return context.Cause(m.ctx)
	}
	if err := j.conn.Err(); !errors.Is(err, cm.ErrDisconnected) {
		return fmt.Errorf("the connection has ended with %w, want ErrDisconnected", err)
	}
	return nil
}
