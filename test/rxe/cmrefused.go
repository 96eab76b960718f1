package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
)

// noListener asks for a port where nobody listens.
func noListener(m *meeting) error {
	if m.dial {
		_, err := cm.Dial(m.ctx, m.dev, m.theirs(), nil)
		if !errors.Is(err, cm.ErrNoListener) {
			return fmt.Errorf("dial: %w, want ErrNoListener", err)
		}
		return rejectedWith(err, cm.RejectNoListener, nil)
	}
	// Another port, so that our connection manager is there.
	l, err := cm.Listen(m.dev, ":1", nil)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := m.guest.request(m.family, m.port, portSpaceTCP, offer{}); err != nil {
		return err
	}
	ev, err := m.guest.event("REJECTED")
	if err != nil {
		return err
	}
	return ev.refused(cm.RejectNoListener, nil)
}

// asked has the guest ask for a connection; the caller closes the listener.
func (m *meeting) asked() (*cm.Listener, *cm.Request, error) {
	l, err := cm.Listen(m.dev, m.own(), nil)
	if err != nil {
		return nil, nil, err
	}
	var r *cm.Request
	if err = m.guest.request(m.family, m.port, portSpaceTCP, offer{}); err == nil {
		r, err = l.Request(m.ctx)
	}
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	return l, r, nil
}

// rejectedWith demands a refusal.
func rejectedWith(err error, why cm.RejectReason, private []byte) error {
	var r *cm.RejectedError
	if !errors.As(err, &r) || r.Reason != why {
		return fmt.Errorf("error %w, want a refusal with reason %d", err, why)
	}
	return carries("REJ", r.PrivateData, private, cm.MaxRejectPrivate)
}

// refused is the same of an event of the guest.
func (e *cmEvent) refused(why cm.RejectReason, private []byte) error {
	if e.Status != int(why) {
		return fmt.Errorf("the guest is refused with reason %d, want %d", e.Status, why)
	}
	return e.carries("REJ", private, cm.MaxRejectPrivate)
}

// reject has the program that listens say no, and why.
func reject(m *meeting) error {
	why := withZeros("no", cm.MaxRejectPrivate)
	if m.dial {
		if err := m.guest.listen(m.family, m.port, portSpaceTCP); err != nil {
			return err
		}
		attempt := m.dialing(m.ctx, nil)
		if _, err := m.guest.event("CONNECT_REQUEST"); err != nil {
			return err
		}
		if err := m.guest.reject(why); err != nil {
			return err
		}
		return rejectedWith((<-attempt).err, cm.RejectByApplication, why)
	}
	l, r, err := m.asked()
	if err != nil {
		return err
	}
	defer l.Close()
	if err := r.Reject(why); err != nil {
		return err
	}
	ev, err := m.guest.event("REJECTED")
	if err != nil {
		return err
	}
	return ev.refused(cm.RejectByApplication, why)
}

// withdraw has the program that asked give up before there is an answer.
func withdraw(m *meeting) error {
	if m.dial {
		if err := m.guest.listen(m.family, m.port, portSpaceTCP); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(m.ctx)
		defer cancel()
		attempt := m.dialing(ctx, nil)
		if _, err := m.guest.event("CONNECT_REQUEST"); err != nil {
			return err
		}
		cancel()
		if d := <-attempt; !errors.Is(d.err, context.Canceled) {
			return fmt.Errorf("dial: %w, want Canceled", d.err)
		}
		time.Sleep(time.Second) // for our REJ: Linux tells a program of it only when that accepts
		if err := m.guest.accept(offer{}); err == nil || !strings.Contains(err.Error(), "Invalid argument") {
			return fmt.Errorf("the guest accepts what was withdrawn: error %w, want that of an id without a request", err)
		}
		return nil
	}
	l, r, err := m.asked()
	if err != nil {
		return err
	}
	defer l.Close()
	if err := m.guest.call("destroy", nil, 0, nil); err != nil {
		return err
	}
	conn, err := r.Accept(m.ctx, nil)
	if err == nil {
		return errors.Join(errors.New("a request that was withdrawn is accepted"), conn.Close())
	}
	return rejectedWith(err, cm.RejectTimeout, nil)
}
