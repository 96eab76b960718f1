package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/roce-xdp/roce-xdp/internal/daemon/control"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// An interface that is removed ends its programs' device and nothing else; one of its
// name that comes is opened, by a daemon that is not root any more.
func TestNetnsInterfaceComesBack(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 1500})
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "more0"}, PeerName: "more1"}
	change := func(f func(netlink.Link) error) {
		t.Helper()
		if err := pair.A.NS.Do(func() error { return f(veth) }); err != nil {
			t.Fatal(err)
		}
	}
	change(netlink.LinkAdd)
	d := startDaemon(t, pair.A.NS, filepath.Join(netns.ShortTempDir(t), "run"), "--user nobody eth0 more0")
	t.Setenv("ROCE_XDP_RUNTIME_DIR", d.dir)
	dev, err := verbs.Open("more0")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	eventually := func(status string) {
		t.Helper()
		var h control.Health
		for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
			var err error
			if h, err = control.NewClient(d.dir).Health(t.Context()); err != nil {
				t.Fatal(err)
			}
			if h.Status == status {
				return
			}
		}
		t.Fatalf("it is %+v, want %s; it said %s", h, status, d.log)
	}
	eventually(control.StatusOK)
	change(netlink.LinkDel)
	if e, err := dev.NextEvent(t.Context()); err != nil || e.Type != verbs.EventDeviceFatal {
		t.Errorf("the program has %v, %v", e.Type, err)
	}
	eventually(control.StatusDegraded)
	wantMatch(t, "links", d.ask(t, "link"), `^link eth0/1 state ACTIVE `, `^link more0/1 state DOWN physical_state DISABLED$`)
	change(netlink.LinkAdd)
	eventually(control.StatusOK)
	again, err := verbs.Open("more0")
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	d.stop(t)
}
