package xsktest_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/datapath/xsk/xsktest"
)

func TestWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, xsktest.Config{})
		c, _ := pair(t, xsktest.Config{})
		w := xsktest.NewWaiter(a.port, c.port)
		sleep := func(d time.Duration, want bool, took time.Duration) {
			t.Helper()
			start := time.Now()
			woken, err := w.Sleep(d)
			if woken != want || err != nil || time.Since(start) != took {
				t.Fatalf("Sleep(%v) says %v, %v after %v, want %v after %v", d, woken, err, time.Since(start), want, took)
			}
		}
		sleep(0, false, 0)
		sleep(time.Second, false, time.Second)

		w.Wake()
		w.Wake()
		sleep(-1, true, 0)
		sleep(time.Second, false, time.Second)

		b.send(frame(64, 1))
		sleep(0, true, 0)
		sleep(-1, true, 0)
		a.recv()
		sleep(time.Second, false, time.Second)

		for _, wake := range []func(){w.Wake, func() { b.send(frame(64, 2)) }, func() { c.port.Inject(frame(64, 3)) }} {
			done := make(chan struct{}) // the sleeper may wake before Kick returns
			time.AfterFunc(time.Minute, func() { wake(); close(done) })
			sleep(time.Hour, true, time.Minute)
			<-done
			a.recv()
			c.recv()
		}

		time.AfterFunc(time.Second, func() { w.Close() })
		if _, err := w.Sleep(-1); !errors.Is(err, xsk.ErrClosed) {
			t.Errorf("Sleep while closing: %v", err)
		}
		if _, err := w.Sleep(0); !errors.Is(err, xsk.ErrClosed) {
			t.Errorf("Sleep after Close: %v", err)
		}
		if err := w.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		b.send(frame(64, 4)) // nobody to tell
	})
}

func TestWaiterOneSleeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := xsktest.NewWaiter()
		go func() {
			if woken, err := w.Sleep(-1); !woken || err != nil {
				t.Errorf("first sleeper: %v, %v", woken, err)
			}
		}()
		synctest.Wait()
		if _, err := w.Sleep(0); !errors.Is(err, xsk.ErrInUse) {
			t.Errorf("second sleeper: %v, want ErrInUse", err)
		}
		w.Wake()
	})
}

// No wake-up may be lost, whenever it comes.
func TestWaiterNothingLost(t *testing.T) {
	const rounds = 10_000
	a, b := pair(t, xsktest.Config{})
	w := xsktest.NewWaiter(a.port)
	defer w.Close()
	var turn atomic.Int64
	ack := make(chan struct{})
	go func() {
		defer close(ack)
		for i := range int64(rounds) {
			for got := false; !got; {
				woken, err := w.Sleep(10 * time.Second)
				if err != nil || !woken {
					t.Errorf("round %d: Sleep says %v, %v", i, woken, err)
					return
				}
				n := len(a.recv())
				if a.fill(n); n != 0 {
					got = true
				}
				got = got || turn.Load() > i
			}
			ack <- struct{}{}
		}
	}()
	for i := range rounds {
		if i%2 == 0 {
			b.send(frame(20, 1))
			b.reap()
			turn.Add(1)
		} else {
			turn.Add(1)
			w.Wake()
		}
		if _, ok := <-ack; !ok {
			return
		}
	}
}

func TestWaiterAllocs(t *testing.T) {
	w := xsktest.NewWaiter()
	defer w.Close()
	if n := testing.AllocsPerRun(50, func() {
		w.Wake()
		if _, err := w.Sleep(-1); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Sleep(time.Microsecond); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a wake-up and a sleep", n)
	}
}
