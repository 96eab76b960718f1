package verbstest

import (
	"context"
	"errors"

	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// xrcEnd is what an end of an XRC pair has made for itself.
type xrcEnd struct {
	domain *verbs.XRCD
	srq    *verbs.SRQ
}

// makeTarget gives e a target and a shared receive queue in its XRC domain.
func (e *End) makeTarget(o Options, side int) (err error) {
	d := o.XRCD[side]
	if d == nil {
		if d, err = e.Dev.OpenXRCD(nil); err != nil {
			return err
		}
		e.xrc.domain = d
	}
	if e.SRQ == nil {
		e.SRQ, err = e.PD.CreateSRQ(&verbs.SRQInitAttr{Type: verbs.SRQXRC, XRCD: d, CQ: e.CQ, MaxWR: o.Depth, MaxSGE: o.SGE})
		if err != nil {
			return err
		}
		e.xrc.srq = e.SRQ
	}
	e.TGT, err = d.CreateQP(&verbs.QPInitAttr{Type: verbs.XRCRecv})
	return err
}

// joinTarget connects e's initiator to the target of peer.
func (e *End) joinTarget(peer *End, path connect.Path) error {
	own, target := e.endpoint(), peer.endpoint()
	target.QPN = peer.TGT.Num()
	for _, q := range []struct {
		qp         *verbs.QP
		sgid       int
		self, peer connect.Endpoint
	}{{peer.TGT, peer.GID.Index, target, own}, {e.QP, e.GID.Index, own, target}} {
		path.SGIDIndex = q.sgid
		if err := connect.ToInit(q.qp, path); err != nil {
			return err
		}
		if err := connect.Connect(context.Background(), q.qp, path, q.self, q.peer); err != nil {
			return err
		}
	}
	return nil
}

func (x *xrcEnd) close(e *End) error {
	var errs []error
	if e.TGT != nil {
		errs = append(errs, e.TGT.Destroy())
	}
	if x.srq != nil {
		errs = append(errs, x.srq.Destroy())
	}
	if x.domain != nil {
		errs = append(errs, x.domain.Close())
	}
	return errors.Join(errs...)
}
