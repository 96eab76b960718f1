package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// What a daemon of three interfaces and ten idle clients may use.
const (
	idleShare  = 0.01     // of a CPU
	idleMemory = 64 << 20 // bytes, beside packet memory and clients' buffers
	// packetMemory is that of a device with one queue: 4096 frames to receive into and
	// 2048 to send from, of 4 KiB.
	packetMemory = (4096 + 2048) * 4096
)

// cpuTime is what the threads of a process have run so far.
func cpuTime(t *testing.T, pid int) (sum time.Duration) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("threads %v, %v", threads, err)
	}
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		var ns int64
		if _, err := fmt.Sscan(string(text), &ns); err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// resident is how much memory of the process is there.
func resident(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kib int
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

func TestNetnsIdleCost(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 1500})
	err := pair.A.NS.Do(func() error {
		for _, name := range []string{"more0", "more1"} {
			if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "p"}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, pair.A.NS, filepath.Join(netns.ShortTempDir(t), "run"), "--queues 1 eth0 more0 more1")
	t.Setenv("ROCE_XDP_RUNTIME_DIR", d.dir)
	for i := range 10 {
		dev, err := verbs.Open([]string{"eth0", "more0", "more1"}[i%3])
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		pd, err := dev.AllocPD()
		if err != nil {
			t.Fatal(err)
		}
		cq, err := dev.CreateCQ(256)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second) // what the start left to do
	const watched = 3 * time.Second
	began, before := time.Now(), cpuTime(t, d.cmd.Process.Pid)
	time.Sleep(watched)
	used, took := cpuTime(t, d.cmd.Process.Pid)-before, time.Since(began)
	share := float64(used) / float64(took)
	if share > idleShare {
		t.Errorf("it used %v in %v: %.2f %% of a CPU, more than %.0f", used, took, 100*share, 100*idleShare)
	}
	rss := resident(t, d.cmd.Process.Pid)
	if rss < 3*packetMemory {
		t.Errorf("%d MiB are resident, less than the packet memory", rss>>20)
	}
	if rest := rss - 3*packetMemory; rest > idleMemory {
		t.Errorf("%d MiB are resident beside the packet memory, more than %d", rest>>20, idleMemory>>20)
	}
	t.Logf("%.3f %% of a CPU, %d MiB beside the packet memory", 100*share, (rss-3*packetMemory)>>20)
	d.stop(t)
}
