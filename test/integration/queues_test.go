package integration_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestQueues has eight queue pairs in each direction move data at once over four
// queues. Every queue of both ends must receive, and most frames must arrive on
// another worker than that of their queue pair.
func TestQueues(t *testing.T) {
	const queues, pairs = 4, 16
	for _, link := range []int{1500, 9000} {
		t.Run(fmt.Sprintf("link %d", link), func(t *testing.T) {
			r := newRig(t, netns.PairOptions{MTU: link, Queues: queues}, &datapath.Options{})
			occupy(t, r.b)
			var wg sync.WaitGroup
			for i := range pairs {
				p := r.pair(t, verbstest.Options{BufferSize: 256 << 10})
				if i%2 != 0 {
					p = p.Reverse()
				}
				wg.Go(func() {
					for range soak(3, 30) {
						if err := p.Every(1, p.MTU.Bytes()+1, 10_000, 200_001); err != nil {
							t.Errorf("queue pair %d: %v", i, err)
							return
						}
					}
				})
			}
			wg.Wait()
			checkQueues(t, r.hosts.A, r.a, queues)
			checkQueues(t, r.hosts.B, r.b, queues)
		})
	}
}

// occupy gives the first worker of dev a queue pair, so that those that follow
// are one worker ahead of their peers: a frame arrives on the queue that it was
// sent from, which is then not that of its queue pair.
func occupy(t *testing.T, dev *verbs.Context) {
	t.Helper()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}); err != nil {
		t.Fatal(err)
	}
}

func checkQueues(t *testing.T, host *netns.End, dev *verbs.Context, queues int) {
	t.Helper()
	perQueue := redirected(t, host)
	if len(perQueue) != queues {
		t.Fatalf("the kernel counts %d queues, want %d", len(perQueue), queues)
	}
	var sum uint64
	for q, n := range perQueue {
		if sum += n; n == 0 {
			t.Errorf("queue %d of %s has received nothing", q, host.NS.Name())
		}
	}
	c := counters(t, dev)
	if c["xsk_rx_frames"] != sum {
		t.Errorf("sockets received %d frames, the kernel redirected %d", c["xsk_rx_frames"], sum)
	}
	if c["handover_pkts"]*2 < sum {
		t.Errorf("%d of %d frames crossed workers, want at least half", c["handover_pkts"], sum)
	}
	for _, name := range []string{"bad_descriptors", "icrc_errors", "xsk_rx_invalid_descs", "xsk_tx_invalid_descs"} {
		if v, ok := c[name]; v != 0 || !ok {
			t.Errorf("counter %s is %d (exists: %v), want 0", name, v, ok)
		}
	}
	t.Logf("frames per queue %v, %d crossed", perQueue, c["handover_pkts"])
}

// redirected is how many frames the XDP program has redirected on each receive
// queue, as the veth driver counts them.
func redirected(t *testing.T, host *netns.End) []uint64 {
	t.Helper()
	var out []byte
	err := host.NS.Do(func() (err error) {
		out, err = exec.Command("ethtool", "-S", host.Ifname).Output()
		return err
	})
	if err != nil {
		t.Fatalf("ethtool -S: %v", err)
	}
	var list []uint64
	for line := range bytes.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(string(line)), ": ")
		if name != fmt.Sprintf("rx_queue_%d_xdp_redirect", len(list)) {
			continue
		}
		v, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			t.Fatalf("ethtool says %q", line)
		}
		list = append(list, v)
	}
	return list
}
