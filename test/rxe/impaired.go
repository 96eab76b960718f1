package main

import (
	"time"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/test/netns/impair"
)

// The link of the impaired rows loses one frame in a hundred, each way. A row
// repeats its operation on one connection until frames of both directions were
// lost, or many of one: a long message has hundreds of packets and few answers.
//
// rdma_rxe cannot repeat an ATOMIC WRITE or a FLUSH, nor answer a FLUSH again (see
// docs/interop.md): in rows where it would have to, only our frames are lost.
const (
	lossRate     = 0.01
	manyLosses   = 8
	mostRepeats  = 1000 // of two frames at least: nobody gets there by bad luck
	impairedTime = rowTime + time.Minute
	impairedSeed = 20
)

// badLink is the rig's bridge with impair's programs on its ports, there from the
// first row that needs them.
type badLink struct{ link *impair.Link }

// impaired has our frames and, if both is set, the guest's lost while f runs.
func (l *badLink) impaired(r *rig, both bool, f func()) (err error) {
	if l.link == nil {
		hosts := &netns.Pair{Bridge: r.ns, Taps: [2]string{bridgeEnd, r.vms[0]}}
		if l.link, err = impair.New(hosts, impairedSeed); err != nil {
			return err
		}
	}
	rates := impair.Rates{Drop: lossRate}
	if err := l.link.Set(impair.FromA, rates); err != nil {
		return err
	}
	if both {
		if err := l.link.Set(impair.FromB, rates); err != nil {
			return err
		}
	}
	f()
	return l.link.SetBoth(impair.Rates{})
}

// lost is how many frames were lost so far: ours and the guest's.
func (l *badLink) lost() (n [2]uint64, err error) {
	for i, dir := range []impair.Direction{impair.FromA, impair.FromB} {
		c, err := l.link.Counts(dir)
		if err != nil {
			return n, err
		}
		n[i] = c.Dropped
	}
	return n, nil
}

func (l *badLink) close() error {
	if l.link == nil {
		return nil
	}
	return l.link.Close()
}

// impairedRows are all operations over a link that loses frames.
func impairedRows() []row {
	var all []row
	for _, f := range families {
		for _, mtu := range mtus {
			add := func(name string, run func(*trial)) {
				for _, ours := range []bool{true, false} {
					p := usual(f, mtu)
					p.timeout = 17 // 0.54 s
					all = append(all, impairedRow(name, ours, p, run))
				}
			}
			for _, op := range operations {
				add(op.name, op.run)
			}
			add("SEND_WITH_INV", sendInvalidate)
		}
	}
	return all
}

func impairedRow(name string, ours bool, p params, run func(*trial)) row {
	r := trialRow("impaired", name, ours, p, func(t *trial) {
		both := name != "FLUSH" && (ours || name != "ATOMIC_WRITE")
		err := t.bad.impaired(t.loss.r, both, func() { t.untilLost(both, run) })
		if t.err == nil {
			t.err = err
		}
	})
	r.limit = impairedTime
	return r
}

// untilLost repeats an operation until enough frames were lost meanwhile.
func (t *trial) untilLost(both bool, run func(*trial)) {
	before, err := t.bad.lost()
	for range mostRepeats {
		if err != nil {
			t.failf("%w", err)
			return
		}
		if run(t); t.err != nil {
			return
		}
		var now [2]uint64
		now, err = t.bad.lost()
		ours, theirs := now[0]-before[0], now[1]-before[1]
		if ours > 0 && (theirs > 0 || !both) || ours+theirs >= manyLosses {
			return
		}
	}
	t.failf("too few frames were lost in %d repetitions", mostRepeats)
}
