package xsk_test

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
)

func newWaiter(t testing.TB, socks ...*xsk.Socket) *xsk.SocketWaiter {
	t.Helper()
	w, err := xsk.NewWaiter(socks...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func sleep(t testing.TB, w xsk.Waiter, d time.Duration, want bool) {
	t.Helper()
	woken, err := w.Sleep(d)
	if err != nil {
		t.Fatalf("Sleep: %v", err)
	}
	if woken != want {
		t.Fatalf("Sleep(%v) says woken %v, want %v", d, woken, want)
	}
}

func TestNetnsWaiter(t *testing.T) {
	c := newCable(t, cableConfig{queues: 2})
	s0, s1 := c.socket(0, 0, nil), c.socket(0, 1, nil)
	a0, a1 := newStation(t, s0), newStation(t, s1)
	b0, b1 := newStation(t, c.socket(1, 0, nil)), newStation(t, c.socket(1, 1, nil))
	w := newWaiter(t, s0, s1)

	start := time.Now()
	sleep(t, w, 0, false)
	sleep(t, w, 20*time.Millisecond, false)
	if d := time.Since(start); d < 20*time.Millisecond {
		t.Errorf("slept %v, want 20ms", d)
	}

	b0.send(payload(64, 1))
	a0.waitAvail()
	sleep(t, w, 0, true)
	sleep(t, w, -1, true)
	checkFrame(t, a0.recv()[0], payload(64, 1))
	sleep(t, w, time.Millisecond, false)

	w.Wake() // two count as one, and are kept
	w.Wake()
	sleep(t, w, -1, true)
	sleep(t, w, time.Millisecond, false)

	for _, tc := range []struct {
		name string
		do   func()
	}{
		{"Wake", w.Wake},
		{"frame on the first socket", func() { b0.send(payload(64, 2)) }},
		{"frame on the second socket", func() { b1.send(payload(64, 3)) }},
	} {
		done := make(chan struct{}) // the sleeper may wake before Kick returns
		time.AfterFunc(5*time.Millisecond, func() { tc.do(); close(done) })
		woken, err := w.Sleep(5 * time.Second)
		<-done
		if !woken || err != nil {
			t.Errorf("%s: Sleep says %v, %v", tc.name, woken, err)
		}
		a0.recv()
		a1.recv()
	}

	time.AfterFunc(5*time.Millisecond, func() { w.Close() })
	if _, err := w.Sleep(5 * time.Second); !errors.Is(err, xsk.ErrClosed) {
		t.Errorf("Sleep while closing: %v, want ErrClosed", err)
	}
	if _, err := w.Sleep(time.Millisecond); !errors.Is(err, xsk.ErrClosed) {
		t.Errorf("Sleep after Close: %v, want ErrClosed", err)
	}
	w.Wake() // harmless
	if err := w.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func (s *station) waitAvail() {
	s.t.Helper()
	eventually(s.t, "a frame arrives", func() bool { return s.port.RxAvail() != 0 })
}

func TestNetnsWaiterOneSleeper(t *testing.T) {
	c := newCable(t, cableConfig{})
	w := newWaiter(t, c.socket(0, 0, nil))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			_, err := w.Sleep(-1)
			switch {
			case errors.Is(err, xsk.ErrInUse):
				continue // the other one was first
			case err != nil:
				t.Errorf("first sleeper: %v", err)
			}
			return
		}
	}()
	eventually(t, "a second sleeper is refused", func() bool {
		_, err := w.Sleep(0)
		return errors.Is(err, xsk.ErrInUse)
	})
	w.Wake()
	<-done
}

func TestNetnsWaiterClosedSocket(t *testing.T) {
	c := newCable(t, cableConfig{})
	s := c.socket(0, 0, nil)
	w := newWaiter(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Sleep(time.Millisecond); err == nil {
		t.Error("Sleep on a closed socket gives no error")
	}
	if _, err := xsk.NewWaiter(s); !errors.Is(err, xsk.ErrClosed) {
		t.Errorf("waiter for a closed socket: %v, want ErrClosed", err)
	}
}

// Ping-pong between a sleeping receiver and a sender that hits it at any
// point on its way to sleep. A lost wake-up shows as a sleep to its end.
func TestNetnsWaiterNoFrameLost(t *testing.T) {
	c := newCable(t, cableConfig{})
	sa, sb := c.socket(0, 0, nil), c.socket(1, 0, nil)
	a, b := newStation(t, sa), newStation(t, sb)
	w := newWaiter(t, sa)
	const rounds = 10_000
	seen := make(chan struct{}, 1)
	failed := make(chan struct{})
	go func() {
		defer close(failed)
		for got := 0; got < rounds; {
			woken, err := w.Sleep(3 * time.Second)
			if err != nil || !woken {
				t.Errorf("round %d: Sleep says %v, %v", got, woken, err)
				return
			}
			for range len(a.recv()) {
				got++
				seen <- struct{}{}
			}
		}
	}()
	rng := rand.New(rand.NewPCG(1, 2))
	for range rounds {
		b.send(payload(64, 1))
		b.reap(1)
		for range rng.IntN(200) {
			spinOnce.Add(1)
		}
		select {
		case <-seen:
		case <-failed:
			return
		}
	}
	<-failed
}

var spinOnce atomic.Uint64

func TestNetnsWaiterNoWakeLost(t *testing.T) {
	c := newCable(t, cableConfig{})
	w := newWaiter(t, c.socket(0, 0, nil))
	checkNoWakeLost(t, w, 10_000)
}

// checkNoWakeLost hands a token back and forth: each Wake must end a Sleep.
func checkNoWakeLost(t *testing.T, w xsk.Waiter, rounds int) {
	t.Helper()
	var turn atomic.Int64
	done := make(chan struct{})
	ack := make(chan struct{}, 1)
	go func() {
		defer close(done)
		for i := range int64(rounds) {
			for turn.Load() <= i {
				if woken, err := w.Sleep(3 * time.Second); err != nil || !woken {
					t.Errorf("round %d: Sleep says %v, %v", i, woken, err)
					return
				}
			}
			ack <- struct{}{}
		}
	}()
	rng := rand.New(rand.NewPCG(3, 4))
	for range rounds {
		for range rng.IntN(100) {
			spinOnce.Add(1)
		}
		turn.Add(1)
		w.Wake()
		select {
		case <-ack:
		case <-done:
			return
		}
	}
	<-done
}

func TestNetnsWaiterAllocs(t *testing.T) {
	c := newCable(t, cableConfig{})
	s := c.socket(0, 0, nil)
	w := newWaiter(t, s)
	if n := testing.AllocsPerRun(100, func() {
		w.Wake()
		if _, err := w.Sleep(-1); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Sleep(50 * time.Microsecond); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a wake-up and a sleep", n)
	}
}
