package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// local is our end: a queue pair on the rig's device.
type local struct {
	ctx  context.Context
	dev  *verbs.Context
	path connect.Path
	own  endpoint

	pd *verbs.PD
	mr *verbs.MR
	cq *verbs.CQ
	qp *verbs.QP
	b  []byte

	windows []*verbs.MW
}

func (l *local) name() string { return ourName }

// fullAccess are all rights but that to bind windows.
const fullAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic | verbs.AccessFlushGlobal

// prepare makes all but the queue pair.
func (l *local) prepare(size int) (err error) {
	if l.pd, err = l.dev.AllocPD(); err != nil {
		return err
	}
	if l.b, err = l.dev.AllocBuffer(size); err != nil {
		return err
	}
	if l.mr, err = l.pd.RegisterMemory(l.b, fullAccess|verbs.AccessMWBind); err != nil {
		return err
	}
	l.cq, err = l.dev.CreateCQ(256)
	return err
}

func (l *local) open(p params) (endpoint, error) {
	gid, err := l.dev.GIDIndex(p.family.ours)
	if err != nil {
		return endpoint{}, err
	}
	if err := l.prepare(p.size); err != nil {
		return endpoint{}, err
	}
	l.qp, err = l.pd.CreateQP(&verbs.QPInitAttr{
		Type: verbs.RC, SendCQ: l.cq, RecvCQ: l.cq, SigAll: true, Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64},
	})
	if err != nil {
		return endpoint{}, err
	}
	l.path = connect.Path{
		MTU: connect.PathMTU(p.mtu), SGIDIndex: gid, Access: fullAccess, RDAtomic: rdAtomic,
		Timeout: uint8(p.timeout), RetryCnt: uint8(p.retry), RNRRetry: uint8(p.rnr), MinRNRTimer: uint8(p.minRNR),
	}
	if err := connect.ToInit(l.qp, l.path); err != nil {
		return endpoint{}, err
	}
	l.own = endpoint{QPN: l.qp.Num(), PSN: p.psn, GID: p.family.ours, RKey: l.mr.RKey(), Addr: l.mr.Addr()}
	return l.own, nil
}

func (l *local) connect(peer endpoint) error {
	return connect.Connect(l.ctx, l.qp, l.path,
		connect.Endpoint{QPN: l.own.QPN, PSN: l.own.PSN, GID: l.own.GID},
		connect.Endpoint{QPN: peer.QPN, PSN: peer.PSN, GID: peer.GID.Unmap()})
}

func (l *local) fill(off, n int, seed string) error { return l.set(off, data(seed, n)) }

func (l *local) set(off int, b []byte) error {
	copy(l.b[off:], b)
	return nil
}

func (l *local) sum(off, n int) (string, error) { return digest(l.b[off : off+n]), nil }

func (l *local) recv(id uint64, off, n int) error {
	return l.qp.PostRecv(&verbs.RecvWR{WRID: id, SGList: []verbs.SGE{l.mr.SGE(off, n)}})
}

func (l *local) post(r request) error {
	wr := verbs.SendWR{
		WRID: r.ID, Opcode: r.Op, SGList: []verbs.SGE{l.mr.SGE(r.Off, r.N)}, Imm: r.Imm,
		RemoteAddr: r.Addr, RKey: r.RKey, CompareAdd: r.Cmp, Swap: r.Swap,
	}
	switch r.Op {
	case verbs.OpSendWithInv:
		wr.InvalidateKey = r.RKey
	case verbs.OpFlush:
		wr.SGList = nil
		wr.FlushLength, wr.FlushPlacement, wr.FlushLevel = uint32(r.N), verbs.FlushGlobal, verbs.FlushLevel(r.Level)
	default: // nothing more to say
	}
	return l.qp.PostSend(&wr)
}

func (l *local) window(off, n int) (uint32, error) {
	mw, err := l.pd.AllocMW(verbs.MWType2)
	if err != nil {
		return 0, err
	}
	l.windows = append(l.windows, mw)
	err = l.qp.PostSend(&verbs.SendWR{
		Opcode: verbs.OpBindMW, MW: mw, RKey: verbs.IncRKey(mw.RKey()),
		Bind: &verbs.MWBindInfo{MR: l.mr, Addr: l.mr.Addr() + uint64(off), Length: uint64(n), Access: verbs.AccessRemoteRead | verbs.AccessRemoteWrite},
	})
	if err != nil {
		return 0, err
	}
	got, err := l.wait(1, opTime)
	switch {
	case err != nil:
		return 0, err
	case len(got) != 1 || got[0].Opcode != verbs.WCBindMW || got[0].Status != verbs.WCSuccess:
		return 0, fmt.Errorf("the binding ended with %+v", got)
	}
	return mw.RKey(), nil
}

func (l *local) state() (verbs.QPState, error) {
	a, err := l.qp.Query()
	return a.State, err
}

func (l *local) wait(n int, limit time.Duration) ([]completion, error) {
	ctx, cancel := context.WithTimeout(l.ctx, limit)
	defer cancel()
	var got []completion
	wcs := make([]verbs.WC, n)
	for len(got) < n {
		k, err := l.cq.Wait(ctx, wcs[:n-len(got)])
		if err != nil {
			if l.ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				return got, nil
			}
			return got, err
		}
		for _, w := range wcs[:k] {
			got = append(got, completion{w.WRID, w.Status, w.Opcode, w.ByteLen, w.Flags, w.Imm})
		}
	}
	return got, nil
}

func (l *local) close() error {
	var errs []error
	if l.qp != nil {
		errs = append(errs, l.qp.Destroy())
	}
	for _, w := range l.windows {
		errs = append(errs, w.Dealloc())
	}
	if l.cq != nil {
		errs = append(errs, l.cq.Destroy())
	}
	if l.mr != nil {
		errs = append(errs, l.mr.Deregister())
	}
	if l.b != nil {
		errs = append(errs, l.dev.FreeBuffer(l.b))
	}
	if l.pd != nil {
		errs = append(errs, l.pd.Dealloc())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("ours: close: %w", err)
	}
	return nil
}
