package cm_test

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// cyclesEnv is how many connections a soak test makes; 1000 without.
const cyclesEnv = "ROCE_XDP_CM_CYCLES"

func cycles(t testing.TB) int {
	t.Helper()
	s := os.Getenv(cyclesEnv)
	if s == "" {
		return 1000
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

// cycle makes n connections, one after the other, and ends each from one side, in turn.
func cycle(t testing.TB, l *cm.Listener, from *verbs.Context, to string, n int) {
	t.Helper()
	ctx := within(t)
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
	pd, err := b.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := b.CreateCQ(16)
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t, b, ":7471", &cm.Config{PD: pd, SendCQ: cq, RecvCQ: cq, AckTimeout: 8})
	cycle(t, l, a, "192.0.2.2:7471", 1)
	goroutines, fds := runtime.NumGoroutine(), descriptors(t)
	n, began := cycles(t), time.Now()
	cycle(t, l, a, "192.0.2.2:7471", n)
	t.Logf("%d connections, %.0f/s", n, float64(n)/time.Since(began).Seconds())
	if err := errors.Join(l.Close(), cq.Destroy(), pd.Dealloc()); err != nil {
		t.Errorf("something is left: %v", err)
	}
	if cm.Referred(a) || cm.Referred(b) {
		t.Error("a device has ids")
	}
	// The engines end when TIMEWAIT has, with the queue pairs 1.
	waitFor(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines-2 })
	if now := descriptors(t); now > fds {
		t.Errorf("%d file descriptors, %d before", now, fds)
	}
	for _, dev := range []*verbs.Context{a, b} {
		listen(t, dev, ":7471", nil) // queue pair 1 is free again
	}
}
