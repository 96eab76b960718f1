package datapath

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// addrSilent is a peer that never answers: who asks for it waits until it is let go.
var addrSilent = netip.MustParseAddr("192.0.2.200")

// clientQP is a queue pair of a client in INIT.
func clientQP(t *testing.T, c *Client) verbs.ProviderQP {
	t.Helper()
	cq, err := c.CreateCQ(16)
	if err != nil {
		t.Fatal(err)
	}
	q, err := c.CreateQP(&verbs.ProviderQPInit{
		PD: clientPD(t, c), Type: ibv.QPTypeRC, SendCQ: cq, RecvCQ: cq, Cap: ibv.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	if err == nil {
		err = q.Modify(t.Context(), &ibv.QPAttr{State: ibv.QPStateInit, Port: 1}, initMask)
	}
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func clientPD(t *testing.T, c *Client) uint32 {
	t.Helper()
	pd, err := c.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	return pd
}

// TestWaitsForPeersEnd: who waits for a peer that does not answer is let go by its
// context, by the end of its client and by that of the device, and has changed nothing.
func TestWaitsForPeersEnd(t *testing.T) {
	for _, end := range []struct {
		name string
		end  func(r *rig, c *Client, cancel context.CancelFunc)
		want error
	}{
		{"its context", func(_ *rig, _ *Client, cancel context.CancelFunc) { cancel() }, context.Canceled},
		{"the client", func(r *rig, c *Client, _ context.CancelFunc) {
			if err := c.Close(); err != nil {
				r.t.Error(err)
			}
		}, ErrClosed},
		{"the device", func(r *rig, _ *Client, _ context.CancelFunc) { r.a.Interrupt() }, ErrClosed},
	} {
		t.Run(end.name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			c, err := r.a.NewClient(&ClientConfig{Name: "c"})
			if err != nil {
				t.Fatal(err)
			}
			q, pd := clientQP(t, c), clientPD(t, c)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 2)
			go func() {
				attr := rtrAttr()
				attr.AV.DGID = gidOf(addrSilent)
				ended <- q.Modify(ctx, &attr, rtrMask)
			}()
			go func() {
				_, err := c.CreateAH(ctx, pd, &ibv.AddressVector{DGID: gidOf(addrSilent)})
				ended <- err
			}()
			for range 2 {
				<-r.routes[0].silent
			}
			begun := time.Now()
			end.end(r, c, cancel)
			for range 2 {
				if err := <-ended; !errors.Is(err, end.want) {
					t.Errorf("%v, want %v", err, end.want)
				}
			}
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("it took %v", took)
			}
			if u := c.Usage(); u.AHs != 0 {
				t.Errorf("%d address handles", u.AHs)
			}
			if c.gone() {
				return
			}
			if a, err := q.Query(); err != nil || a.State != ibv.QPStateInit {
				t.Errorf("%v in state %v", err, a.State)
			}
			if err := c.DeallocPD(pd); err != nil { // nothing is in it
				t.Error(err)
			}
		})
	}
}

// TestModifyHoldsUpNothing: while a Modify waits, the queue pair can be changed and
// destroyed, and what was done then counts.
func TestModifyHoldsUpNothing(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(verbs.ProviderQP) error
		want error
	}{
		{"to ERR", func(q verbs.ProviderQP) error {
			return q.Modify(context.Background(), &ibv.QPAttr{State: ibv.QPStateErr}, ibv.QPAttrState)
		}, verbs.ErrTransition},
		{"destroyed", func(q verbs.ProviderQP) error { return q.Destroy() }, ErrClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			q := clientQP(t, r.a.root)
			var meanwhile error
			r.routes[0].during = func() { meanwhile = tt.do(q) }
			attr := rtrAttr()
			if err := q.Modify(t.Context(), &attr, rtrMask); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
			if meanwhile != nil {
				t.Error(meanwhile)
			}
			if a, err := q.Query(); err != nil || a.State == ibv.QPStateRTR {
				t.Errorf("%v in state %v", err, a.State)
			}
		})
	}
}
