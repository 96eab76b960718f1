package opener

import (
	"errors"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/daemon/daemontest"
	"github.com/roce-xdp/roce-xdp/internal/daemon/serve"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// TestNetnsServed: the daemon's device is found in its namespace, whatever link-layer address
// its interface is given, and is not taken for one of the same name and index elsewhere.
func TestNetnsServed(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{})
	if hosts.A.Ifindex != hosts.B.Ifindex || hosts.A.Ifname != hosts.B.Ifname {
		t.Fatalf("the ends are %s, %d and %s, %d: they were to be alike", hosts.A.Ifname, hosts.A.Ifindex, hosts.B.Ifname, hosts.B.Ifindex)
	}
	in := func(e *netns.End, f func() error) {
		t.Helper()
		if err := e.NS.Do(f); err != nil {
			t.Fatal(err)
		}
	}
	var dev *verbs.Context
	in(hosts.A, func() (err error) { dev, err = datapath.Open(hosts.A.Ifname, nil); return err })
	d := daemontest.Start(t, dev, serve.Config{Name: "test"})
	t.Cleanup(func() {
		d.Stop(t)
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv(session.DirVariable, d.Dir)
	served := func() error {
		got, err := Open(hosts.A.Ifname, Either, nil)
		if err != nil {
			return err
		}
		if _, remote := got.Provider().(interface{ Session() *session.Session }); !remote {
			t.Error("opened in this process")
		}
		return got.Close()
	}
	in(hosts.A, served)
	h, err := hosts.A.NS.Handle()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	link, err := h.LinkByName(hosts.A.Ifname)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.LinkSetHardwareAddr(link, hosts.B.MAC); err != nil { // which the other's has, too
		t.Fatal(err)
	}
	in(hosts.A, served)
	in(hosts.B, func() error {
		_, err := Serves(hosts.B.Ifname)
		if !errors.Is(err, errNotServed) || !strings.Contains(err.Error(), "another network namespace") {
			t.Errorf("in the other namespace: %v", err)
		}
		return nil
	})
}
