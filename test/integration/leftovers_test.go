package integration_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestNothingLeft opens devices, uses them, and closes them: tidily, with objects
// still there, and under traffic. Then the process has the descriptors, mappings
// and goroutines that it had before, the interfaces carry no program, and the
// namespaces are gone.
func TestNothingLeft(t *testing.T) {
	netns.Require(t)
	for _, tt := range []struct {
		name string
		use  func(*testing.T, *rig)
	}{
		{"unused", func(*testing.T, *rig) {}},
		{"tidy", useTidily},
		{"objects left", useUntidily},
		{"under traffic", closeUnderTraffic},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lifecycle(t, tt.use) // the runtime and the packages have their own first
			before, threads := holdings(t), goleak.IgnoreCurrent()
			paths := lifecycle(t, tt.use)
			goleak.VerifyNone(t, threads)
			if diff := cmp.Diff(before, holdings(t)); diff != "" {
				t.Errorf("before (-), after (+):\n%s", diff)
			}
			for _, path := range paths {
				if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s is there: %v", path, err)
				}
			}
		})
	}
}

// lifecycle makes hosts and devices, uses and closes them. It returns where the
// namespaces were.
func lifecycle(t *testing.T, use func(*testing.T, *rig)) (paths []string) {
	t.Helper()
	hosts, err := netns.NewPair(netns.PairOptions{MTU: 9000, Queues: 2})
	must(t, err)
	defer func() { must(t, hosts.Close()) }()
	r := &rig{hosts: hosts}
	ends := []struct {
		host *netns.End
		dev  **verbs.Context
	}{{hosts.A, &r.a}, {hosts.B, &r.b}}
	for _, e := range ends {
		*e.dev, err = openErr(e.host, nil)
		must(t, err)
		paths = append(paths, e.host.NS.Path())
	}
	use(t, r)
	for _, e := range ends {
		must(t, (*e.dev).Close())
		must(t, (*e.dev).Close()) // twice is no error
		checkClosed(t, *e.dev)
		checkNoProgram(t, e.host)
	}
	return paths
}

func useTidily(t *testing.T, r *rig) {
	p, err := verbstest.NewRCPair(r.a, r.b, verbstest.Options{})
	must(t, err)
	must(t, p.Every(1, 100_000))
	must(t, p.Close())
}

func useUntidily(t *testing.T, r *rig) {
	p, err := verbstest.NewRCPair(r.a, r.b, verbstest.Options{})
	must(t, err)
	must(t, p.Every(1, 100_000))
	must(t, p.B.Recv(1, 0, 8))
	must(t, p.A.QP.PostSend(&verbs.SendWR{Opcode: verbs.OpRDMARead, SGList: []verbs.SGE{p.A.MR.SGE(0, 1<<19)}, RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey()}))
}

// closeUnderTraffic closes the devices while goroutines post, poll and wait.
func closeUnderTraffic(t *testing.T, r *rig) {
	var wg sync.WaitGroup
	started := make(chan struct{}, 4)
	for range cap(started) {
		p, err := verbstest.NewRCPair(r.a, r.b, verbstest.Options{BufferSize: 1 << 16})
		must(t, err)
		wg.Go(func() {
			defer func() { _ = p.Close() }()
			// It leaves the buffers alone, which go with the device.
			for i := 0; ; i++ {
				if p.A.Post(write(p, 0, 10_000)) != nil {
					return
				}
				if _, err := p.A.Next(); err != nil {
					return
				}
				if i == 3 {
					started <- struct{}{}
				}
			}
		})
	}
	for range cap(started) {
		<-started
	}
	must(t, r.a.Close())
	must(t, r.b.Close())
	wg.Wait()
}

// checkClosed calls a closed device.
func checkClosed(t *testing.T, dev *verbs.Context) {
	t.Helper()
	_, pd := dev.AllocPD()
	_, cq := dev.CreateCQ(1)
	_, buf := dev.AllocBuffer(1)
	_, port := dev.QueryPort()
	_, event := dev.NextEvent(t.Context())
	for name, err := range map[string]error{"AllocPD": pd, "CreateCQ": cq, "AllocBuffer": buf, "QueryPort": port, "NextEvent": event} {
		if !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("%s on a closed device: %v, want %v", name, err, verbs.ErrClosed)
		}
	}
	if dev.Progress() {
		t.Error("a closed device makes progress")
	}
}

// checkNoProgram looks for an XDP program and attaches one in its place.
func checkNoProgram(t *testing.T, host *netns.End) {
	t.Helper()
	must(t, host.NS.Do(func() error {
		link, err := netlink.LinkByName(host.Ifname)
		if err != nil {
			return err
		}
		if x := link.Attrs().Xdp; x != nil && x.Attached {
			return fmt.Errorf("program %d is attached", x.ProgId)
		}
		return nil
	}))
	for _, mode := range []bpf.Mode{bpf.ModeNative, bpf.ModeGeneric} {
		dev, err := openErr(host, &datapath.Options{Mode: mode})
		if err != nil {
			t.Fatalf("opening it again: %v", err)
		}
		must(t, dev.Close())
	}
}

// holdings are what a process has of the kernel: its descriptors, as their
// targets say what they are, and its mappings of sockets and BPF maps.
func holdings(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	kinds := map[string]int{}
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil {
			continue // the directory's own descriptor
		}
		kind, _, _ := strings.Cut(target, ":[")
		kinds["descriptor of "+kind]++
	}
	maps, err := os.ReadFile("/proc/self/maps")
	must(t, err)
	for line := range strings.Lines(string(maps)) {
		for _, what := range []string{"socket:", "bpf-map"} {
			if strings.Contains(line, what) {
				kinds["mapping of "+what]++
			}
		}
	}
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmLck:") {
			kinds[strings.TrimSpace(line)]++
		}
	}
	var list []string
	for kind, n := range kinds {
		list = append(list, fmt.Sprint(kind, " ", n))
	}
	slices.Sort(list)
	return list
}
