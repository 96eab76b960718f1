package netns

import (
	"errors"
	"os"
	"slices"
	"strings"
)

// RequireEnv names the environment variable that lists, separated by commas, the
// capabilities whose absence fails a test instead of skipping it: root, netns, xdp,
// tshark, clang, systemd, hugepages.
const RequireEnv = "ROCE_XDP_REQUIRE"

// TB is what the helpers need of *testing.T, *testing.B and *testing.F.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// Required reports whether the environment demands a capability.
func Required(capability string) bool {
	return slices.Contains(strings.Split(os.Getenv(RequireEnv), ","), capability)
}

// Missing skips the test for want of a capability, or fails it where the
// capability is demanded.
func Missing(t TB, capability, reason string) {
	t.Helper()
	if Required(capability) {
		t.Fatalf("%s demands %s: %s", RequireEnv, capability, reason)
	}
	t.Skipf("needs %s: %s", capability, reason)
}

// RequireRoot skips or fails the test unless it runs as root; why says what for.
func RequireRoot(t TB, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		Missing(t, "root", why)
	}
}

// Require skips or fails the test unless namespaces can be made.
func Require(t TB) {
	t.Helper()
	if err := probe(); err != nil {
		Missing(t, "netns", err.Error())
	}
}

func probe() error {
	n, err := New()
	if err != nil {
		return err
	}
	return n.Close()
}

// ForTest makes a namespace that ends with the test.
func ForTest(t TB) *NS {
	t.Helper()
	Require(t)
	n, err := New()
	if err != nil {
		t.Fatalf("make namespace: %v", err)
	}
	t.Cleanup(func() { closeForTest(t, n.Close) })
	return n
}

// PairForTest makes a pair that ends with the test.
func PairForTest(t TB, o PairOptions) *Pair {
	t.Helper()
	Require(t)
	p, err := NewPair(o)
	if err != nil {
		t.Fatalf("make pair: %v", err)
	}
	t.Cleanup(func() { closeForTest(t, p.Close) })
	return p
}

// LANForTest makes a LAN of n hosts that ends with the test.
func LANForTest(t TB, n int, o LANOptions) *LAN {
	t.Helper()
	Require(t)
	l, err := NewLAN(n, o)
	if err != nil {
		t.Fatalf("make LAN: %v", err)
	}
	t.Cleanup(func() { closeForTest(t, l.Close) })
	return l
}

// CaptureForTest begins a capture that ends with the test at the latest.
func CaptureForTest(t TB, ns *NS, ifname string) *Capture {
	t.Helper()
	c, err := NewCapture(ns, ifname)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _, _ = c.Stop() })
	return c
}

func closeForTest(t TB, closeFn func() error) {
	t.Helper()
	if err := closeFn(); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("remove namespace: %v", err)
	}
}
