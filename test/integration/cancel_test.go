package integration_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/daemon/daemontest"
	"github.com/roce-xdp/roce-xdp/internal/daemon/serve"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

const (
	prompt  = 2500 * time.Millisecond // the kernel asks for a peer for three
	waiting = 48                      // more than the daemon executes of a client at a time
)

// waiter is a program at a daemon that waits for peers which do not answer.
type waiter struct {
	dev   *verbs.Context
	pd    *verbs.PD
	qp    *verbs.QP
	av    verbs.AddressVector
	ended chan error
}

func newWaiter(t *testing.T, dev *verbs.Context, src netip.Addr) *waiter {
	t.Helper()
	w := &waiter{dev: dev, ended: make(chan error, waiting+1)}
	index, err := dev.GIDIndex(src)
	if err != nil {
		t.Fatal(err)
	}
	w.av = verbs.AddressVector{DGID: netip.MustParseAddr("::ffff:192.0.2.99").As16(), SGIDIndex: index, Port: 1, HopLimit: 1}
	if w.pd, err = dev.AllocPD(); err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(16)
	if err != nil {
		t.Fatal(err)
	}
	if w.qp, err = w.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.UC, SendCQ: cq, RecvCQ: cq}); err != nil {
		t.Fatal(err)
	}
	err = w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateInit, Port: 1}, verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrPort|verbs.AttrAccessFlags)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// begin has the program wait, for a connection and for many address handles.
func (w *waiter) begin(ctx context.Context) {
	go func() {
		w.ended <- w.qp.ModifyContext(ctx, &verbs.QPAttr{State: verbs.QPStateRTR, AV: w.av, PathMTU: verbs.MTU1024, DestQPN: 7},
			verbs.AttrState|verbs.AttrAV|verbs.AttrPathMTU|verbs.AttrDestQPN|verbs.AttrRQPSN)
	}()
	for range waiting {
		go func() {
			_, err := w.pd.CreateAHContext(ctx, &w.av)
			w.ended <- err
		}()
	}
	time.Sleep(100 * time.Millisecond) // most of it waits in the kernel by then, the rest for its turn
}

// end wants all of it to end soon with an error.
func (w *waiter) end(t *testing.T, want error) {
	t.Helper()
	begun := time.Now()
	for range waiting + 1 {
		if err := <-w.ended; !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	if took := time.Since(begun); took > prompt {
		t.Errorf("it took %v", took)
	}
}

// soon wants do to succeed at once.
func soon(t *testing.T, what string, do func() error) {
	t.Helper()
	begun := time.Now()
	if err := do(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if took := time.Since(begun); took > prompt {
		t.Errorf("%s took %v", what, took)
	}
}

// TestCancelThroughDaemon: programs that wait for a peer which does not answer, in a
// daemon, are let go when they want to, when they close the device and when their
// connection ends; what comes after is not held up, and nothing is left of it.
func TestCancelThroughDaemon(t *testing.T) {
	r := newRig(t, netns.PairOptions{NoIPv6: true}, nil)
	d := daemontest.Start(t, r.a, serve.Config{})
	clients := func(n int) {
		t.Helper()
		for end := time.Now().Add(prompt); len(d.Server.Snapshot("")) != n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d clients, want %d", len(d.Server.Snapshot("")), n)
			}
		}
	}
	port := func(dev *verbs.Context) func() error {
		return func() error { _, err := dev.QueryPort(); return err }
	}

	w := newWaiter(t, d.Open(t), r.hosts.A.IPv4)
	other := d.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.begin(ctx)
	soon(t, "a request of the same program meanwhile", port(w.dev))
	soon(t, "a request of another program meanwhile", port(other))
	cancel()
	w.end(t, context.Canceled)
	soon(t, "another request that may wait", func() error { return w.qp.Modify(&verbs.QPAttr{State: verbs.QPStateErr}, verbs.AttrState) })
	for _, c := range d.Server.Snapshot("") {
		if c.Usage.AHs != 0 {
			t.Errorf("%d address handles are left in the daemon", c.Usage.AHs)
		}
	}
	soon(t, "giving the domain back", func() error { return errors.Join(w.qp.Destroy(), w.pd.Dealloc()) })

	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	w = newWaiter(t, w.dev, r.hosts.A.IPv4)
	begun := time.Now()
	if _, err := w.pd.CreateAHContext(ctx, &w.av); !errors.Is(err, verbs.ErrNoNeighbour) || time.Since(begun) > prompt {
		t.Errorf("no answer in time: %v after %v", err, time.Since(begun))
	}

	w.begin(t.Context())
	soon(t, "closing the device", w.dev.Close)
	w.end(t, verbs.ErrClosed)
	clients(1)

	// A connection that ends without a word, as that of a program which is killed.
	w = newWaiter(t, d.Open(t), r.hosts.A.IPv4)
	w.begin(t.Context())
	w.dev.Provider().(interface{ Session() *session.Session }).Session().Close()
	w.end(t, verbs.ErrClosed)
	clients(1)
	soon(t, "a request of another program", port(other))
}
