package cm_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// cyclesEnv is how many connections a soak test makes.
const cyclesEnv = "ROCE_XDP_CM_CYCLES"

// cycles is that number, or another without.
func cycles(t testing.TB, without int) int {
	t.Helper()
	s := os.Getenv(cyclesEnv)
	if s == "" {
		return without
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", cyclesEnv, err)
	}
	return n
}

func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// standing is how many goroutines connection managers have without programs: none, but for
// those of daemons.
var standing = 0

// goroutines is how many there are of the connection manager.
func goroutines() (n int) {
	all := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
		if strings.Contains(stack, "/internal/cmengine.") || strings.Contains(stack, "/roce-xdp/cm.") {
			n++
		}
	}
	return n
}

// cycle makes n connections, one after the other, and ends each from one side, in turn.
func cycle(t testing.TB, l *cm.Listener, from *verbs.Context, to string, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// A machine that does nothing else makes thousands in a second.
	slow := time.AfterFunc(patience+time.Duration(n)*20*time.Millisecond, cancel)
	defer slow.Stop()
	served := make(chan error, 1)
	go func() {
		for i := range n {
			c, err := l.Accept(ctx)
			if err == nil && i%2 == 0 {
				err = c.Disconnect(ctx)
			} else if err == nil {
				<-c.Done()
			}
			if err == nil {
				err = c.Close()
			}
			if err != nil {
				served <- err
				return
			}
		}
		served <- nil
	}()
	for i := range n {
		c, err := cm.Dial(ctx, from, to, &cm.Config{AckTimeout: 8})
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if i%2 == 0 {
			<-c.Done()
		} else if err := c.Disconnect(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-served; err != nil {
		t.Fatal(err)
	}
}

// TestCycles: connections that come and go leave nothing: no reference to the device,
// no queue pair, no goroutine, no file descriptor.
func TestCycles(t *testing.T) {
	a, b := devices(t)
	comeAndGo(t, a, b, datapathtest.IPv4[1], cycles(t, 1000))
}

// TestNetnsCycles is the same between two hosts.
func TestNetnsCycles(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{Queues: 2})
	comeAndGo(t, openIn(t, hosts.A), openIn(t, hosts.B), hosts.B.IPv4, cycles(t, 200))
}

func comeAndGo(t *testing.T, a, b *verbs.Context, server netip.Addr, n int) {
	t.Helper()
	fds := descriptors(t)
	pd, err := b.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := b.CreateCQ(16)
	if err != nil {
		t.Fatal(err)
	}
	if n := goroutines(); n != standing {
		t.Errorf("%d goroutines before, want %d", n, standing)
	}
	l := listen(t, b, ":7471", &cm.Config{PD: pd, SendCQ: cq, RecvCQ: cq, AckTimeout: 8})
	if n := goroutines(); n <= standing {
		t.Error("a listener has no goroutine: they are not counted")
	}
	to := netip.AddrPortFrom(server, 7471).String()
	began := time.Now()
	cycle(t, l, a, to, n)
	t.Logf("%d connections, %.0f/s", n, float64(n)/time.Since(began).Seconds())
	// A queue pair that is left keeps its completion queue and protection domain; those of
	// the other end went without an error of Close.
	if err := errors.Join(l.Close(), cq.Destroy(), pd.Dealloc()); err != nil {
		t.Errorf("something is left: %v", err)
	}
	if cm.Referred(a) || cm.Referred(b) {
		t.Error("a device has ids")
	}
	// Engines that no daemon keeps end when TIMEWAIT has, with the queue pairs 1.
	waitFor(t, "goroutines to end", func() bool { return goroutines() == standing })
	if now := descriptors(t); now > fds {
		t.Errorf("%d file descriptors, %d before", now, fds)
	}
	for _, dev := range []*verbs.Context{a, b} {
		listen(t, dev, ":7471", nil) // queue pair 1 is free again, or the daemon's
	}
}
