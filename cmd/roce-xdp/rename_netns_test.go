package main

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/roce-xdp/roce-xdp/internal/opener"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// TestNetnsRename: an interface that is renamed stays the device that it was, with what programs
// have of it; both names lead to it, until a reload has it by the new one.
func TestNetnsRename(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 1500})
	dir := netns.ShortTempDir(t)
	file := filepath.Join(dir, "toml")
	configure := func(ifname string) {
		t.Helper()
		writeConfig(t, file, "[interface."+ifname+"]\n")
	}
	configure("eth0")
	d := startDaemon(t, pair.A.NS, filepath.Join(dir, "run"), "--config "+file)
	t.Setenv(session.DirVariable, d.dir)
	open := func(name string) *verbs.Context {
		t.Helper()
		c, err := verbs.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	before := open("eth0")
	rename(t, pair.A.NS, "eth0", "lan0")
	d.says(t, `msg="interface renamed: the device keeps its name until the configuration has the new one" device=eth0 interface=lan0`)
	// The link comes up after the name is known.
	for until := time.Now().Add(20 * time.Second); strings.Contains(d.ask(t, "link show"), "DOWN") && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
	}
	wantMatch(t, "link", d.ask(t, "link show"), `^link eth0/1 state ACTIVE physical_state LINK_UP netdev lan0$`)
	if err := pair.A.NS.Do(func() error {
		serves, why := opener.Serves("lan0")
		if !serves {
			return why
		}
		return nil
	}); err != nil {
		t.Errorf("commands: %v", err)
	}
	for _, c := range []*verbs.Context{before, open("eth0"), open("lan0")} {
		if _, err := c.AllocPD(); err != nil {
			t.Errorf("%s: %v", c.Name(), err)
		}
	}
	configure("lan0")
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	d.says(t, `msg="reload: interface.lan0: opened"`)
	wantMatch(t, "link", d.ask(t, "link show"), `^link lan0/1 state ACTIVE physical_state LINK_UP netdev lan0$`)
	if _, err := open("lan0").AllocPD(); err != nil {
		t.Error(err)
	}
	d.stop(t)
}

// rename gives an interface another name, which it takes while it is down.
func rename(t *testing.T, ns *netns.NS, from, to string) {
	t.Helper()
	h, err := ns.Handle()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	l, err := h.LinkByName(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []func(netlink.Link) error{h.LinkSetDown, func(l netlink.Link) error { return h.LinkSetName(l, to) }, h.LinkSetUp} {
		if err := step(l); err != nil {
			t.Fatal(err)
		}
	}
}

// says waits until the daemon has logged something.
func (d *runningDaemon) says(t *testing.T, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !strings.Contains(d.log.String(), what) {
		select {
		case <-ctx.Done():
			t.Fatalf("it does not say %q: %s", what, d.log)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
