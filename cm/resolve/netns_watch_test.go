package resolve_test

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/roce-xdp/roce-xdp/cm/resolve"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type change struct {
	res verbs.Resolution
	err error
}

// awaitChange waits until a change is the one that is meant.
func awaitChange(changes <-chan change, is func(change) bool) bool {
	for end := time.After(10 * time.Second); ; {
		select {
		case c := <-changes:
			if is(c) {
				return true
			}
		case <-end:
			return false
		}
	}
}

func TestNetnsWatch(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{})
	ip(t, pair.A.NS, "route add 198.51.100.0/24 via 192.0.2.2")
	ip(t, pair.B.NS, "address add 192.0.2.3/24 dev eth0")
	r := inside(t, pair.A.NS)
	var w *resolve.Watcher
	if err := pair.A.NS.Do(func() (err error) { w, err = resolve.NewWatcher(r); return err }); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	req := request("198.51.100.9", "", "")
	was, err := r.Resolve(within(t, 5*time.Second), req)
	if err != nil {
		t.Fatal(err)
	}
	changes := make(chan change, 100)
	stop := w.Watch(req, was, func(res verbs.Resolution, err error) { changes <- change{res, err} })
	// what changes, and until what is told
	for _, step := range []struct {
		name, ip string
		is       func(change) bool
	}{
		{"link-layer address", "neighbour replace 192.0.2.2 dev eth0 lladdr 02:00:00:00:00:55 nud permanent", func(c change) bool {
			return c.err == nil && c.res.DstMAC == [6]byte{2, 0, 0, 0, 0, 0x55}
		}},
		{"gateway", "route replace 198.51.100.0/24 via 192.0.2.3", func(c change) bool { return c.err == nil && c.res.NextHop.String() == "192.0.2.3" }},
		{"MTU", "link set eth0 mtu 1400", func(c change) bool { return c.err == nil && c.res.PathMTU == 1400 }},
		{"route removed", "route del 198.51.100.0/24", func(c change) bool { return errors.Is(c.err, resolve.ErrNoRoute) }},
		{"route back", "route add 198.51.100.0/24 via 192.0.2.2", func(c change) bool { return c.err == nil && c.res.NextHop == pair.B.IPv4 }},
		{"link down", "link set eth0 down", func(c change) bool { return c.err != nil }},
	} {
		ip(t, pair.A.NS, step.ip)
		if !awaitChange(changes, step.is) {
			t.Fatalf("%s: nothing is told", step.name)
		}
	}
	stop()
	ip(t, pair.A.NS, "link set eth0 up")
	time.Sleep(200 * time.Millisecond)
	for len(changes) > 0 {
		<-changes // told before stop
	}
	ip(t, pair.A.NS, "route add 198.51.100.0/24 via 192.0.2.3")
	time.Sleep(200 * time.Millisecond)
	if len(changes) != 0 {
		t.Errorf("told after stop: %+v", <-changes)
	}
}

// Neither traffic nor changes elsewhere are changes of the way.
func TestNetnsWatchIsQuiet(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{NoIPv6: true})
	r := inside(t, pair.A.NS)
	var w *resolve.Watcher
	if err := pair.A.NS.Do(func() (err error) { w, err = resolve.NewWatcher(r); return err }); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	was, err := r.Resolve(within(t, 5*time.Second), request("192.0.2.2", "", ""))
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan change, 100)
	w.Watch(request("192.0.2.2", "", ""), was, func(res verbs.Resolution, err error) { told <- change{res, err} })
	ip(t, pair.A.NS, "route add 198.51.100.0/24 via 192.0.2.2\nneighbour flush dev eth0\naddress add 192.0.9.1/24 dev lo")
	time.Sleep(300 * time.Millisecond)
	if len(told) != 0 {
		t.Errorf("told %+v", <-told)
	}
}
