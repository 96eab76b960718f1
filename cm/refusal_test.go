package cm_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/datapath/xsk/xsktest"
	"github.com/roce-xdp/roce-xdp/verbs"
)

func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// TestNoListener: the peer's connection manager says that nobody listens, as it
// runs for another port.
func TestNoListener(t *testing.T) {
	a, b := devices(t)
	listen(t, b, "192.0.2.2:1", nil)
	_, err := cm.Dial(within(t), a, "192.0.2.2:7471", nil)
	var r *cm.RejectedError
	if !errors.Is(err, cm.ErrNoListener) || !errors.Is(err, cm.ErrRejected) || !errors.As(err, &r) || r.Reason != cm.RejectNoListener {
		t.Errorf("error %v", err)
	}
	if err != nil && !strings.Contains(err.Error(), "is the server running") {
		t.Errorf("%v does not say what to do", err)
	}
	// An IPv6 address is not what listens there.
	if _, err := cm.Dial(within(t), a, "[2001:db8::2]:1", nil); !errors.Is(err, cm.ErrNoListener) {
		t.Errorf("error %v", err)
	}
}

// TestReject passes the reason and private data of the limit's size on.
func TestReject(t *testing.T) {
	a, b := devices(t)
	l := listen(t, b, ":7471", nil)
	for _, n := range []int{0, 1, cm.MaxRejectPrivate} {
		done := make(chan error, 1)
		go func() {
			r, err := l.Request(within(t))
			if err == nil {
				err = r.Reject(counting(n))
			}
			done <- err
		}()
		_, err := cm.Dial(within(t), a, "192.0.2.2:7471", nil)
		var r *cm.RejectedError
		if !errors.As(err, &r) || r.Reason != cm.RejectByApplication || !bytes.Equal(r.PrivateData, padded(counting(n), cm.MaxRejectPrivate)) {
			t.Errorf("error %v: %+v", err, r)
		}
		if errors.Is(err, cm.ErrNoListener) {
			t.Error("it is no listener that wants")
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestPrivateDataTooLong: one byte more than there is room for.
func TestPrivateDataTooLong(t *testing.T) {
	a, b := devices(t)
	l := listen(t, b, ":7471", nil)
	if _, err := cm.Dial(within(t), a, "192.0.2.2:7471", &cm.Config{PrivateData: make([]byte, cm.MaxDialPrivate+1)}); !errors.Is(err, cm.ErrPrivateData) {
		t.Errorf("dial: %v", err)
	}
	dialed := make(chan error, 1)
	go func() {
		_, err := cm.Dial(within(t), a, "192.0.2.2:7471", nil)
		dialed <- err
	}()
	r, err := l.Request(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Accept(within(t), make([]byte, cm.MaxAcceptPrivate+1)); !errors.Is(err, cm.ErrPrivateData) {
		t.Errorf("accept: %v", err)
	}
	if err := <-dialed; !errors.Is(err, cm.ErrRejected) {
		t.Errorf("the peer of an acceptance that failed: %v", err)
	}
}

// TestBadArguments: what is wrong before anything is sent.
func TestBadArguments(t *testing.T) {
	a, _ := devices(t)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tt := range []struct {
		name, address string
		cfg           cm.Config
		ctx           context.Context
		want          error
	}{
		{"no port", "192.0.2.2", cm.Config{}, nil, verbs.ErrInvalid},
		{"not a port", "192.0.2.2:http", cm.Config{}, nil, verbs.ErrInvalid},
		{"too large a port", "192.0.2.2:65536", cm.Config{}, nil, verbs.ErrInvalid},
		{"no peer", ":7471", cm.Config{}, nil, verbs.ErrInvalid},
		{"a group", "239.1.1.1:7471", cm.Config{}, nil, verbs.ErrInvalid},
		{"port 0", "192.0.2.2:0", cm.Config{}, nil, verbs.ErrInvalid},
		{"no route", "198.51.100.1:7471", cm.Config{}, nil, verbs.ErrNoRoute},
		{"no neighbour", "[fe80::2]:7471", cm.Config{}, nil, verbs.ErrNoRoute},
		{"not ours", "192.0.2.2:7471", cm.Config{LocalAddr: addrPort("192.0.2.3:0")}, nil, cm.ErrNoSource},
		{"another family", "192.0.2.2:7471", cm.Config{LocalAddr: addrPort("[2001:db8::1]:0")}, nil, verbs.ErrInvalid},
		{"too many resources", "192.0.2.2:7471", cm.Config{ResponderResources: 129}, nil, verbs.ErrInvalid},
		{"too many retries", "192.0.2.2:7471", cm.Config{RetryCount: 8}, nil, verbs.ErrInvalid},
		{"an SRQ without PD", "192.0.2.2:7471", cm.Config{SRQ: new(verbs.SRQ)}, nil, verbs.ErrInvalid},
		{"MTU", "192.0.2.2:7471", cm.Config{MaxMTU: 9}, nil, verbs.ErrInvalid},
		{"timer", "192.0.2.2:7471", cm.Config{MinRNRTimer: 32}, nil, verbs.ErrInvalid},
		{"ended context", "192.0.2.2:7471", cm.Config{}, ended, context.Canceled},
		{"failing Prepare", "192.0.2.2:7471", cm.Config{Prepare: func(*verbs.QP) error { return errPrepare }}, nil, errPrepare},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := tt.ctx
			if ctx == nil {
				ctx = within(t)
			}
			c, err := cm.Dial(ctx, a, tt.address, &tt.cfg)
			if !errors.Is(err, tt.want) || c != nil {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
	for _, tt := range []struct {
		address string
		want    error
	}{{"192.0.2.2:7471", cm.ErrNoSource}, {"nonsense", verbs.ErrInvalid}} {
		if _, err := cm.Listen(a, tt.address, nil); !errors.Is(err, tt.want) {
			t.Errorf("listen on %s: %v", tt.address, err)
		}
	}
	if _, err := cm.Listen(nil, ":7471", nil); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("listen on no device: %v", err)
	}
}

var errPrepare = errors.New("prepare")

// TestAddressInUse: ports are shared by nobody who listens.
func TestAddressInUse(t *testing.T) {
	a, _ := devices(t)
	l := listen(t, a, "192.0.2.1:7471", &cm.Config{ReuseAddr: true})
	for _, address := range []string{"192.0.2.1:7471", ":7471", "0.0.0.0:7471"} {
		if _, err := cm.Listen(a, address, &cm.Config{ReuseAddr: true}); !errors.Is(err, cm.ErrAddrInUse) {
			t.Errorf("%s: %v", address, err)
		}
	}
	listen(t, a, "[2001:db8::1]:7471", nil)
	listen(t, a, "[::]:7472", &cm.Config{AFOnly: true})
	listen(t, a, "0.0.0.0:7472", nil)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	listen(t, a, "192.0.2.1:7471", nil)
}

// TestCancelled ends attempts at each step that waits.
func TestCancelled(t *testing.T) {
	t.Run("request unanswered", func(t *testing.T) {
		a, _ := devices(t)
		peers := []string{datapathtest.Silent.String() + ":7471"}
		if standing == 0 {
			peers = append(peers, "192.0.2.2:7471") // nobody has queue pair 1 at the other end
		}
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		for _, peer := range peers {
			_, err := cm.Dial(ctx, a, peer, nil)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", peer, err)
			}
		}
	})
	t.Run("request undecided", func(t *testing.T) {
		a, b := devices(t)
		l := listen(t, b, ":7471", nil)
		ctx, cancel := context.WithCancel(context.Background())
		dialed := make(chan error, 1)
		go func() {
			_, err := cm.Dial(ctx, a, "192.0.2.2:7471", nil)
			dialed <- err
		}()
		r, err := l.Request(within(t))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-dialed; !errors.Is(err, context.Canceled) {
			t.Errorf("dial: %v", err)
		}
		waitFor(t, "the withdrawal", func() bool { return cm.Withdrawn(r) })
		_, err = r.Accept(within(t), nil)
		var rejected *cm.RejectedError
		if !errors.As(err, &rejected) || rejected.Reason != cm.RejectTimeout {
			t.Errorf("accept of what was withdrawn: %v", err)
		}
	})
	t.Run("listener", func(t *testing.T) {
		_, b := devices(t)
		l := listen(t, b, ":7471", nil)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if _, err := l.Accept(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("accept: %v", err)
		}
		waiting := make(chan error, 1)
		go func() { _, err := l.Accept(context.Background()); waiting <- err }()
		time.Sleep(5 * time.Millisecond)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-waiting; !errors.Is(err, cm.ErrListenerClosed) {
			t.Errorf("accept on a closed listener: %v", err)
		}
	})
	t.Run("listener with requests", func(t *testing.T) {
		a, b := devices(t)
		l := listen(t, b, ":7471", nil)
		dialed := make(chan error, 1)
		go func() { _, err := cm.Dial(within(t), a, "192.0.2.2:7471", nil); dialed <- err }()
		waitFor(t, "the request", func() bool { return cm.Waiting(l) == 1 })
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-dialed; !errors.Is(err, cm.ErrRejected) {
			t.Errorf("dial: %v", err)
		}
	})
	t.Run("answer unanswered", func(t *testing.T) {
		// The REP, the second datagram to arrive, gets lost, and all that come after it.
		var frames atomic.Int32
		a, b := pair(t, datapathtest.Options{Hook: func([]byte) xsktest.Action {
			if frames.Add(1) > 1 {
				return xsktest.Drop
			}
			return xsktest.Deliver
		}})
		l := listen(t, b, ":7471", nil)
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		accepted := make(chan error, 1)
		go func() { _, err := l.Accept(ctx); accepted <- err }()
		_, err := cm.Dial(ctx, a, "192.0.2.2:7471", nil)
		if err := errors.Join(err, <-accepted); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// TestLostRTU: the peer's first message stands for the RTU that was lost.
func TestLostRTU(t *testing.T) {
	var datagrams atomic.Int32
	a, b := pair(t, datapathtest.Options{Hook: func(f []byte) xsktest.Action {
		const bthAt = 14 + 20 + 8
		if f[bthAt] == 0x64 && datagrams.Add(1) == 3 { // UD SEND_ONLY: REQ, REP, RTU
			return xsktest.Drop
		}
		return xsktest.Deliver
	}})
	var mr *verbs.MR
	l := listen(t, b, ":7471", &cm.Config{Prepare: func(q *verbs.QP) (err error) {
		if mr, err = q.PD().RegisterMemory(make([]byte, 8), verbs.AccessLocalWrite); err != nil {
			return err
		}
		return q.PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{mr.SGE(0, 8)}})
	}})
	accepted := make(chan *cm.Conn, 1)
	go func() {
		c, err := l.Accept(within(t))
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	began := time.Now()
	active, err := cm.Dial(within(t), a, "192.0.2.2:7471", nil)
	if err != nil {
		t.Fatal(err)
	}
	send(t, active, []byte("x"))
	passive := <-accepted
	// The REP would come again, and the RTU after it, in 4 seconds.
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("accepted after %v", took)
	}
	if err := errors.Join(mr.Deregister(), active.Close(), passive.Close()); err != nil {
		t.Error(err)
	}
}

// TestBacklog: requests beyond the backlog are refused, and those within are
// served.
func TestBacklog(t *testing.T) {
	const backlog, flood = 3, 12
	a, b := devices(t)
	l := listen(t, b, ":7471", &cm.Config{Backlog: backlog})
	results := make(chan error, flood)
	for range flood {
		go func() {
			c, err := cm.Dial(within(t), a, "192.0.2.2:7471", nil)
			if err == nil {
				err = c.Close()
			}
			results <- err
		}()
	}
	for range flood - backlog {
		var r *cm.RejectedError
		if err := <-results; !errors.As(err, &r) || r.Reason != cm.RejectNoResources {
			t.Errorf("error %v, want no resources", err)
		}
	}
	for range backlog {
		c, err := l.Accept(within(t))
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, c)
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}
