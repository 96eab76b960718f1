package cm_test

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

func openIn(t *testing.T, e *netns.End) *verbs.Context {
	t.Helper()
	return openWith(t, e, nil)
}

func openWith(t *testing.T, e *netns.End, o *datapath.Options) *verbs.Context {
	t.Helper()
	var dev *verbs.Context
	err := e.NS.Do(func() (err error) {
		dev, err = datapath.Open(e.Ifname, o)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return dev
}

// TestNetnsConnect connects two hosts by their addresses of both families and by
// link-local ones.
func TestNetnsConnect(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{Queues: 2})
	a, b := openIn(t, hosts.A), openIn(t, hosts.B)
	l := listen(t, b, ":7471", nil)
	gids, err := b.GIDs()
	if err != nil {
		t.Fatal(err)
	}
	if len(gids) != 3 {
		t.Fatalf("addresses %v", gids)
	}
	for _, g := range gids {
		to := g.GID.Addr().String()
		if g.GID.Addr().Is6() {
			to = "[" + to + "]"
		}
		accepted := make(chan *cm.Conn, 1)
		go func() {
			c, err := l.Accept(within(t))
			if err != nil {
				t.Error(err)
			}
			accepted <- c
		}()
		active, err := cm.Dial(within(t), a, to+":7471", nil)
		if err != nil {
			t.Fatalf("%s: %v", to, err)
		}
		closeLater(t, active)
		echo(t, active, closeLater(t, <-accepted))
	}
}
