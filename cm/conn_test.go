package cm_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// TestConnect connects by all kinds of addresses and moves data both ways.
func TestConnect(t *testing.T) {
	for _, tt := range []struct{ name, listen, dial string }{
		{"IPv4", "192.0.2.2:7471", "192.0.2.2:7471"},
		{"IPv6", "[2001:db8::2]:7471", "[2001:db8::2]:7471"},
		{"IPv4 at all of IPv4", "0.0.0.0:7471", "192.0.2.2:7471"},
		{"IPv4 at all", ":7471", "192.0.2.2:7471"},
		{"IPv6 at all", ":7471", "[2001:db8::2]:7471"},
		{"IPv4 as IPv6", "192.0.2.2:7471", "[::ffff:192.0.2.2]:7471"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := devices(t)
			l := listen(t, b, tt.listen, nil)
			ctx := within(t)
			got := make(chan *cm.Conn, 1)
			go func() {
				c, err := l.Accept(ctx)
				if err != nil {
					t.Error(err)
				}
				got <- c
			}()
			active, err := cm.Dial(ctx, a, tt.dial, nil)
			if err != nil {
				_ = l.Close()
				<-got
				t.Fatal(err)
			}
			closeLater(t, active)
			passive := closeLater(t, <-got)
			echo(t, active, passive)
			if active.LocalAddr() != passive.RemoteAddr() || active.RemoteAddr() != passive.LocalAddr() || active.RemoteAddr().Port() != 7471 {
				t.Errorf("%v to %v, %v to %v", active.LocalAddr(), active.RemoteAddr(), passive.LocalAddr(), passive.RemoteAddr())
			}
			if active.Err() != nil || passive.Err() != nil {
				t.Errorf("errors %v, %v", active.Err(), passive.Err())
			}
		})
	}
}

// TestConnectToItself connects two queue pairs of one device.
func TestConnectToItself(t *testing.T) {
	a, _ := devices(t)
	l := listen(t, a, "192.0.2.1:0", nil)
	if l.Addr().Port() == 0 {
		t.Fatal("no port was chosen")
	}
	active, passive := connect(t, l, a, nil)
	echo(t, active, passive)
}

// TestAttributes looks at the queue pairs that configurations make.
func TestAttributes(t *testing.T) {
	a, b := devices(t)
	l := listen(t, b, ":7471", &cm.Config{ResponderResources: 4, InitiatorDepth: 3, RNRRetryCount: 2, MinRNRTimer: 12, Access: verbs.AccessFlushGlobal})
	active, passive := connect(t, l, a, &cm.Config{
		ResponderResources: -1, InitiatorDepth: 8, RetryCount: 5, RNRRetryCount: -1, TOS: 0x28, AckTimeout: 14, MaxMTU: verbs.MTU1024,
	})
	at, err := active.QP().Query()
	if err != nil {
		t.Fatal(err)
	}
	pt, err := passive.QP().Query()
	if err != nil {
		t.Fatal(err)
	}
	type view struct {
		State                         verbs.QPState
		MTU                           verbs.MTU
		Depth, Resources, Retry, RNR  uint8
		RNRTimer, Timeout, Class, Hop uint8
		Access                        verbs.Access
	}
	of := func(q *verbs.QPAttr) view {
		return view{q.State, q.PathMTU, q.MaxRDAtomic, q.MaxDestRDAtomic, q.RetryCnt, q.RNRRetry, q.MinRNRTimer, q.Timeout, q.AV.TrafficClass, q.AV.HopLimit, q.AccessFlags}
	}
	write := verbs.AccessRemoteWrite
	want := view{verbs.QPStateRTS, verbs.MTU1024, 4, 0, 5, 2, 0, 14, 0x28, 64, write}
	if d := cmp.Diff(want, of(&at)); d != "" {
		t.Errorf("active (-want +got):\n%s", d)
	}
	// The passive end serves the 4 that were agreed, and asks for nothing, as the other serves nothing.
	want = view{verbs.QPStateRTS, verbs.MTU1024, 0, 4, 5, 0, 12, pt.Timeout, 0x28, 64, write | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic | verbs.AccessFlushGlobal}
	if d := cmp.Diff(want, of(&pt)); d != "" {
		t.Errorf("passive (-want +got):\n%s", d)
	}
	if at.DestQPN != passive.QP().Num() || pt.DestQPN != active.QP().Num() {
		t.Errorf("connected with %#x and %#x", at.DestQPN, pt.DestQPN)
	}
}

// TestPrivateData passes private data of sizes up to the limits both ways.
func TestPrivateData(t *testing.T) {
	a, b := devices(t)
	l := listen(t, b, ":7471", nil)
	for _, n := range []struct{ dial, accept int }{{0, 0}, {1, 1}, {cm.MaxDialPrivate, cm.MaxAcceptPrivate}} {
		ctx := within(t)
		got := make(chan *cm.Conn, 1)
		go func() {
			r, err := l.Request(ctx)
			if err != nil {
				t.Error(err)
				got <- nil
				return
			}
			if want := padded(counting(n.dial), cm.MaxDialPrivate); !bytes.Equal(r.PrivateData(), want) {
				t.Errorf("the request says %x, want %x", r.PrivateData(), want)
			}
			if r.RemoteAddr().Addr() != datapathtest.IPv4[0] || r.LocalAddr() != addrPort("192.0.2.2:7471") {
				t.Errorf("request from %v to %v", r.RemoteAddr(), r.LocalAddr())
			}
			c, err := r.Accept(ctx, counting(n.accept))
			if err != nil {
				t.Error(err)
			}
			got <- c
		}()
		active, err := cm.Dial(ctx, a, "192.0.2.2:7471", &cm.Config{PrivateData: counting(n.dial)})
		if err != nil {
			t.Fatal(err)
		}
		passive := <-got
		if want := padded(counting(n.accept), cm.MaxAcceptPrivate); !bytes.Equal(active.PrivateData(), want) {
			t.Errorf("the answer says %x, want %x", active.PrivateData(), want)
		}
		if err := errors.Join(active.Close(), passive.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestDisconnect ends connections from each side, and by both at once.
func TestDisconnect(t *testing.T) {
	a, b := devices(t)
	l := listen(t, b, ":7471", nil)
	for _, tt := range []struct {
		name            string
		active, passive bool
	}{{"active", true, false}, {"passive", false, true}, {"both", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			active, passive := connect(t, l, a, &cm.Config{LocalAddr: addrPort("192.0.2.1:0")})
			ctx := within(t)
			errs := make(chan error, 2)
			for c, does := range map[*cm.Conn]bool{active: tt.active, passive: tt.passive} {
				go func() {
					if !does {
						<-c.Done()
						errs <- nil
						return
					}
					errs <- c.Disconnect(ctx)
				}()
			}
			if err := errors.Join(<-errs, <-errs); err != nil {
				t.Fatal(err)
			}
			for c, did := range map[*cm.Conn]bool{active: tt.active, passive: tt.passive} {
				<-c.Done()
				want := cm.ErrDisconnected
				if did {
					want = verbs.ErrClosed
				}
				// Who disconnects may learn at that moment that the other has.
				if err := c.Err(); !errors.Is(err, want) && (!tt.active || !tt.passive || !errors.Is(err, cm.ErrDisconnected)) {
					t.Errorf("error %v, want %v", err, want)
				}
				waitFor(t, "ERR", func() bool {
					q, err := c.QP().Query()
					return err == nil && q.State == verbs.QPStateErr
				})
				if err := c.Disconnect(ctx); err != nil {
					t.Errorf("a second time: %v", err)
				}
			}
		})
	}
}

// TestPeerGone: a peer whose device is closed cannot say so, unless its program
// closes the connection first; requests to it fail, and closing does not wait.
func TestPeerGone(t *testing.T) {
	a, b := devices(t)
	l := listen(t, b, ":7471", nil)
	active, passive := connect(t, l, a, &cm.Config{AckTimeout: 10, RetryCount: 2})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	<-passive.Done()
	if err := passive.Err(); !errors.Is(err, cm.ErrRemoved) {
		t.Errorf("on the device that is gone: %v", err)
	}
	if _, err := l.Accept(within(t)); !errors.Is(err, cm.ErrRemoved) {
		t.Errorf("its listener: %v", err)
	}
	mr, err := active.PD().RegisterMemory(make([]byte, 8), verbs.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := active.QP().PostSend(&verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mr.SGE(0, 8)}}); err != nil {
		t.Fatal(err)
	}
	var wc [1]verbs.WC
	if _, err := active.SendCQ().Wait(within(t), wc[:]); err != nil || wc[0].Status != verbs.WCRetryExceeded {
		t.Errorf("completion %v, %v", wc[0].Status, err)
	}
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := active.Disconnect(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("disconnect: %v", err)
	}
	if err := mr.Deregister(); err != nil {
		t.Error(err)
	}
}

// TestOwnObjects uses objects that connections share, and posts receives before the
// peer can send.
func TestOwnObjects(t *testing.T) {
	a, b := devices(t)
	pd, err := b.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := b.CreateCQ(64)
	if err != nil {
		t.Fatal(err)
	}
	srq, err := pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 16})
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	mr, err := pd.RegisterMemory(buf, verbs.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	prepared := 0
	l := listen(t, b, ":7471", &cm.Config{PD: pd, SendCQ: cq, RecvCQ: cq, SRQ: srq, Prepare: func(q *verbs.QP) error {
		prepared++
		return srq.PostRecv(&verbs.RecvWR{SGList: []verbs.SGE{mr.SGE(0, 64)}})
	}})
	for range 2 {
		active, passive := connect(t, l, a, &cm.Config{LocalAddr: addrPort("192.0.2.1:0")})
		if passive.PD() != pd || passive.RecvCQ() != cq || passive.SendCQ() != cq || passive.QP().InitAttr().SRQ != srq {
			t.Error("the connection has other objects")
		}
		send(t, active, []byte("x"))
		var wc [1]verbs.WC
		if _, err := cq.Wait(within(t), wc[:]); err != nil || wc[0].Err() != nil || buf[0] != 'x' {
			t.Errorf("%v, %v, %q", err, wc[0].Err(), buf[0])
		}
		if err := errors.Join(active.Close(), passive.Close()); err != nil {
			t.Error(err)
		}
	}
	if prepared != 2 {
		t.Errorf("prepared %d times", prepared)
	}
	if err := errors.Join(mr.Deregister(), srq.Destroy(), cq.Destroy(), pd.Dealloc()); err != nil {
		t.Errorf("something is left: %v", err)
	}
}
