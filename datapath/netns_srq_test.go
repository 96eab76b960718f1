package datapath_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestNetnsShared runs every operation over pairs whose ends share a receive queue
// at each host, one after the other and then all at once.
func TestNetnsShared(t *testing.T) {
	const n, rounds = 4, 20
	for _, queues := range []int{1, 4} {
		for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
			t.Run(fmt.Sprintf("%v, %d queues", typ, queues), func(t *testing.T) {
				hosts := netns.PairForTest(t, netns.PairOptions{MTU: 1500, Queues: queues})
				a, b := openIn(t, hosts.A, nil), openIn(t, hosts.B, nil)
				var o verbstest.Options
				for i, c := range []*verbs.Context{a, b} {
					pd, err := c.AllocPD()
					if err == nil {
						o.SRQ[i], err = pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: n})
					}
					if err == nil {
						o.CQ[i], err = c.CreateCQ(1024)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				pairs := make([]*verbstest.Pair, n)
				for i := range pairs {
					var err error
					if pairs[i], err = verbstest.NewPair(typ, a, b, o); err != nil {
						t.Fatal(err)
					}
					if err := errors.Join(pairs[i].Every(0, 1, 64, 1023, 1024), pairs[i].Reverse().Every(0, 1000)); err != nil {
						t.Fatal(err)
					}
				}
				for range rounds {
					if err := allAtOnce(pairs); err != nil {
						t.Fatal(err)
					}
				}
				report(t, a)
			})
		}
	}
}

// allAtOnce sends one message over each pair and takes all of them: each receive is
// used once, each queue pair has one.
func allAtOnce(pairs []*verbstest.Pair) error {
	for i, p := range pairs {
		if err := p.B.Recv(uint64(i), 1000*i, 200); err != nil {
			return err
		}
	}
	for _, p := range pairs {
		if err := p.A.Post(p.Datagram(100)); err != nil {
			return err
		}
	}
	receives, qps := map[uint64]bool{}, map[uint32]bool{}
	for _, p := range pairs {
		got, err := p.B.Next()
		if err == nil {
			err = got.Err()
		}
		if err != nil {
			return err
		}
		receives[got.WRID], qps[got.QPNum] = true, true
	}
	for _, p := range pairs {
		if _, err := p.A.Done(1, verbs.WCSend); err != nil {
			return err
		}
	}
	if len(receives) != len(pairs) || len(qps) != len(pairs) {
		return fmt.Errorf("receives %v by queue pairs %v, want each once", receives, qps)
	}
	return nil
}
