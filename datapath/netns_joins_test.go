package datapath_test

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// joined reports whether the host has joined a group, as the kernel tells.
func joined(t *testing.T, e *netns.End, group netip.Addr) (yes bool) {
	t.Helper()
	file, b := "igmp6", group.AsSlice()
	if group.Is4() {
		file = "igmp"
		slices.Reverse(b) // in host order, which is little-endian wherever the tests run
	}
	err := e.NS.Do(func() error {
		list, err := os.ReadFile("/proc/thread-self/net/" + file)
		yes = strings.Contains(strings.ToLower(string(list)), hex.EncodeToString(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return yes
}

// TestNetnsManyGroups joins more groups than the kernel allows one socket, leaves
// some, and joins others; what is left ends with the device.
func TestNetnsManyGroups(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{})
	a := openIn(t, hosts.A, nil)
	p, err := verbstest.NewPair(verbs.UD, a, a, verbstest.Options{}) // it goes with the device
	if err != nil {
		t.Fatal(err)
	}
	var list []netip.Addr
	for i := range 70 {
		list = append(list, netip.AddrFrom4([4]byte{239, 192, 1, byte(i)}), netip.MustParseAddr(fmt.Sprintf("ff0e::1:%x", i)))
	}
	change := func(do func(verbs.GID) error, some []netip.Addr, want bool) {
		t.Helper()
		for _, g := range some {
			if err := do(g.As16()); err != nil {
				t.Fatal(err)
			}
			if joined(t, hosts.A, g) != want {
				t.Fatalf("%s joined: %v", g, !want)
			}
		}
	}
	attach, detach := p.A.QP.AttachMulticast, p.A.QP.DetachMulticast
	fds := countFDs(t)
	change(attach, list, true)
	if n := countFDs(t) - fds; n < 2 || n > 20 {
		t.Errorf("%d sockets for %d groups", n, len(list))
	}
	change(detach, list[:60], false)
	change(attach, list[:60], true)
	change(detach, list, false)
	if n := countFDs(t); n != fds {
		t.Errorf("%d file descriptors before the first group and %d after the last", fds, n)
	}
	change(attach, list, true)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for _, g := range list {
		if joined(t, hosts.A, g) {
			t.Errorf("%s is still joined", g)
		}
	}
}
