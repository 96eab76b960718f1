package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// row is one line of the result.
type row struct {
	name  string
	group string
	limit time.Duration
	run   func(ctx context.Context, b *bench) error
}

// bench is what rows run on.
type bench struct {
	*rig
	dev  *device
	bad  *badLink
	cm   *cmServer
	note io.Writer // remarks between the rows
}

// mtus are the path MTUs of the matrix, in bytes.
var mtus = []int{1024, 4096}

// rowTime bounds a row of one connection. The first of them waits for ops.py too,
// which a busy host's guest takes long to load.
const rowTime = 3 * time.Minute

// usual are attributes with timeouts that suit an emulated CPU.
func usual(f family, mtu int) params {
	return params{
		family: f, mtu: mtu, timeout: 18, retry: 7, rnr: 7, minRNR: 20, // 1.07 s; 10.24 ms
		size: regionLen, wait: opTime,
	}
}

// rows is the whole matrix, in the order in which it runs.
func rows() []row {
	all := append(pingpongRows(), rpingRows()...)
	all = append(all, daemonRows()...)
	all = append(all, cmRows()...) // these open the interface for themselves: before all others
	for _, f := range families {
		for _, mtu := range mtus {
			for _, op := range operations {
				for _, ours := range []bool{true, false} {
					all = append(all, trialRow("ops", op.name, ours, usual(f, mtu), op.run))
				}
			}
			for _, ours := range []bool{true, false} {
				all = append(all, trialRow("ops", "SEND_WITH_INV", ours, usual(f, mtu), sendInvalidateForGood))
			}
		}
	}
	all = append(all, largeRows()...)
	all = append(all, impairedRows()...)
	for _, c := range faults {
		for i, f := range families {
			for _, ours := range []bool{true, false} {
				p := usual(f, mtus[i])
				p.timeout, p.retry, p.rnr = c.timeout, c.retry, c.rnr
				all = append(all, trialRow("errors", c.name, ours, p, c.run))
			}
		}
	}
	for _, c := range losses {
		for i, f := range families {
			for _, ours := range []bool{true, false} {
				p := usual(f, mtus[i])
				p.retry = c.retry
				all = append(all, trialRow("loss", c.name, ours, p, c.run))
			}
		}
	}
	return append(all, vlanRows()...)
}

// trialRow is a row of one connection on which we are requester or responder.
func trialRow(group, name string, ours bool, p params, f func(*trial)) row {
	role := "responder"
	if ours {
		role = "requester"
	}
	return row{
		name: fmt.Sprintf("%s/%s/%s/%s/mtu%d", group, name, role, p.family.name, p.mtu), group: group, limit: rowTime,
		run: func(ctx context.Context, b *bench) (err error) {
			dev, err := b.dev.open(ctx, b.rig)
			if err != nil {
				return err
			}
			guest, err := dialGuest(ctx, b.ns, p.family, guestTCP)
			if err != nil {
				return err
			}
			stop := context.AfterFunc(ctx, func() { guest.close() })
			defer stop()
			own := &local{ctx: ctx, dev: dev}
			t := &trial{params: p, req: guest, resp: own, from: source, to: target, loss: &dropper{ctx: ctx, r: b.rig}, bad: b.bad}
			if ours {
				t.req, t.resp = own, guest
			}
			if t.reqEnd, t.respEnd, t.err = join(t.req, t.resp, p); t.err == nil {
				f(t)
			}
			for _, done := range []func() error{t.loss.clear, guest.close, own.close} {
				if err := done(); err != nil && t.err == nil {
					t.err = err
				}
			}
			return t.err
		},
	}
}
