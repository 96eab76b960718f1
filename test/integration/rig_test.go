package integration_test

import (
	"errors"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// rig is two hosts with a device on each.
type rig struct {
	hosts *netns.Pair
	a, b  *verbs.Context
}

// newRig makes hosts and devices that end with the test.
func newRig(t *testing.T, link netns.PairOptions, dev *datapath.Options) *rig {
	t.Helper()
	hosts := netns.PairForTest(t, link)
	return &rig{hosts: hosts, a: open(t, hosts.A, dev), b: open(t, hosts.B, dev)}
}

// openErr opens a device in a host's namespace.
func openErr(e *netns.End, o *datapath.Options) (dev *verbs.Context, err error) {
	err = e.NS.Do(func() (err error) {
		dev, err = datapath.Open(e.Ifname, o)
		return err
	})
	return dev, err
}

// open is openErr for a device that ends with the test.
func open(t *testing.T, e *netns.End, o *datapath.Options) *verbs.Context {
	t.Helper()
	dev, err := openErr(e, o)
	if errors.Is(err, bpf.ErrNotSupported) {
		netns.Missing(t, "xdp", err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("close %s of %s: %v", e.Ifname, e.NS.Name(), err)
		}
	})
	return dev
}

// pair connects two queue pairs over IPv4.
func (r *rig) pair(t *testing.T, o verbstest.Options) *verbstest.Pair {
	t.Helper()
	return verbstest.RCPair(t, r.a, r.b, o)
}

// pair6 connects two queue pairs over global IPv6 addresses.
func (r *rig) pair6(t *testing.T, o verbstest.Options) *verbstest.Pair {
	t.Helper()
	o.UseGIDIndex = true
	for i, end := range []struct {
		dev  *verbs.Context
		host *netns.End
	}{{r.a, r.hosts.A}, {r.b, r.hosts.B}} {
		index, err := end.dev.GIDIndex(end.host.IPv6)
		if err != nil {
			t.Fatal(err)
		}
		o.GIDIndex[i] = index
	}
	return verbstest.RCPair(t, r.a, r.b, o)
}

// counters are a device's counters by name.
func counters(t *testing.T, dev *verbs.Context) map[string]uint64 {
	t.Helper()
	list, err := dev.Counters()
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]uint64, len(list))
	for _, c := range list {
		m[c.Name] = c.Value
	}
	return m
}

// count is one counter; its name must exist.
func count(t *testing.T, dev *verbs.Context, name string) uint64 {
	t.Helper()
	v, ok := counters(t, dev)[name]
	if !ok {
		t.Fatalf("no counter %q", name)
	}
	return v
}

// eventually waits up to 10 s for something that other goroutines or the kernel
// bring about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}
