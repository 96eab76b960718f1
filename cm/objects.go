package cm

import (
	"context"
	"errors"
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// make creates the queue pair of a connection and what it needs, and takes it to
// INIT.
func (c *Conn) make() (err error) {
	c.pd, c.sendCQ, c.recvCQ = c.cfg.PD, c.cfg.SendCQ, c.cfg.RecvCQ
	if c.pd == nil {
		if c.pd, err = c.d.dev.AllocPD(); err != nil {
			return err
		}
	}
	if c.pd.Context() != c.d.dev {
		return invalid("the PD belongs to another device")
	}
	if c.sendCQ == nil {
		if c.sendCQ, err = c.d.dev.CreateCQ(c.cqSize()); err != nil {
			return err
		}
	}
	if c.recvCQ == nil {
		c.recvCQ = c.sendCQ
	}
	if c.qp, err = newQP(c.d, c.pd, &verbs.QPInitAttr{
		Type: verbs.RC, SendCQ: c.sendCQ, RecvCQ: c.recvCQ, SRQ: c.cfg.SRQ, Cap: c.cfg.Cap, SigAll: c.cfg.SigAll,
		Context: c.cfg.Context,
	}); err != nil {
		return err
	}
	if err := toInit(c.qp, verbs.AccessRemoteWrite|c.cfg.Access); err != nil {
		return err
	}
	if c.cfg.Prepare != nil {
		return c.cfg.Prepare(c.qp)
	}
	return nil
}

// cqSize has room for the completions of everything that may be outstanding.
func (c *Conn) cqSize() int {
	n := 0
	for _, wr := range []int{c.cfg.Cap.MaxSendWR, c.cfg.Cap.MaxRecvWR} {
		if wr == 0 {
			wr = defaultWR
		}
		n += wr
	}
	return n
}

const defaultWR = 128 // of verbs.QPInitAttr

// newQP makes a queue pair whose number no connection has that has just ended (IBTA
// vol. 1, 12.9.8).
func newQP(d *device, pd *verbs.PD, attr *verbs.QPInitAttr) (*verbs.QP, error) {
	var held []*verbs.QP
	defer func() {
		for _, q := range held {
			_ = q.Destroy()
		}
	}()
	for {
		q, err := pd.CreateQP(attr)
		if err != nil || !d.client.QPNHeld(q.Num()) {
			return q, err
		}
		held = append(held, q)
	}
}

func toInit(q *verbs.QP, access verbs.Access) error {
	return q.Modify(&verbs.QPAttr{State: verbs.QPStateInit, Port: 1, AccessFlags: access},
		verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrPort|verbs.AttrAccessFlags)
}

// toRTS takes a queue pair from INIT to RTS, connected as attr says. extra are access rights besides.
// The next hop has resolveTime to answer, and no longer than until ctx ends.
func toRTS(ctx context.Context, dev *verbs.Context, q *verbs.QP, attr *cmfsm.QPAttr, extra verbs.Access) error {
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	for _, state := range []verbs.QPState{verbs.QPStateRTR, verbs.QPStateRTS} {
		a, mask, err := attributes(dev, state, attr)
		if err != nil {
			return err
		}
		a.AccessFlags |= extra
		if err := q.ModifyContext(ctx, &a, mask); err != nil {
			return err
		}
	}
	return nil
}

// attributes are those for the step to RTR or RTS.
func attributes(dev *verbs.Context, state verbs.QPState, attr *cmfsm.QPAttr) (verbs.QPAttr, verbs.AttrMask, error) {
	a := attr.QPAttr
	a.State = state
	if state == verbs.QPStateRTS {
		return a, verbs.AttrState | verbs.AttrSQPSN | verbs.AttrTimeout | verbs.AttrRetryCnt | verbs.AttrRNRRetry | verbs.AttrMaxQPRDAtomic, nil
	}
	index, err := gidIndex(dev, ibv.WithScope(attr.LocalGID.Addr(), attr.Scope), attr.VLAN)
	if err != nil {
		return a, 0, err
	}
	a.AV.SGIDIndex = index
	return a, verbs.AttrState | verbs.AttrAV | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRQPSN |
		verbs.AttrMaxDestRDAtomic | verbs.AttrMinRNRTimer | verbs.AttrAccessFlags, nil
}

// free destroys what make has made.
func (c *Conn) free() error {
	var errs []error
	if c.qp != nil {
		errs = append(errs, c.qp.Destroy())
	}
	if c.cfg.SendCQ == nil && c.sendCQ != nil {
		errs = append(errs, c.sendCQ.Destroy())
	}
	if c.cfg.PD == nil && c.pd != nil {
		errs = append(errs, c.pd.Dealloc())
	}
	err := errors.Join(errs...)
	if errors.Is(err, verbs.ErrBusy) {
		err = fmt.Errorf("%w: deregister what was made in the connection's own PD before Close, or give Config a PD", err)
	}
	return err
}
