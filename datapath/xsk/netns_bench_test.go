package xsk_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
)

// BenchmarkNetnsKick is the cost of transmitting a burst in copy mode on veth,
// the peer's receive path included as far as it runs in the call.
func BenchmarkNetnsKick(b *testing.B) {
	for _, burst := range []int{1, 32, 256} {
		b.Run(fmt.Sprint(burst), func(b *testing.B) {
			c := newCable(b, cableConfig{})
			x, y := newStation(b, c.socket(0, 0, nil)), newStation(b, c.socket(1, 0, nil))
			var send []xsk.Desc
			for i := range burst {
				send = append(send, x.lay(payload(64, uint64(i)))...)
			}
			descs, addrs := make([]xsk.Desc, 256), make([]uint64, 256)
			for b.Loop() {
				if x.port.Submit(send) != burst {
					b.Fatal("transmit ring is full")
				}
				if err := x.port.Kick(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				drain(x.port, y.port, burst, descs, addrs)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*burst), "ns/frame")
		})
	}
}

// drain waits until n frames have arrived at to and are completed at from.
func drain(from, to xsk.Port, n int, descs []xsk.Desc, addrs []uint64) {
	for done := 0; done < n; {
		done += from.Complete(addrs)
	}
	for got := 0; got < n; {
		k := to.Receive(descs)
		for i := range descs[:k] {
			addrs[i] = descs[i].Addr
		}
		to.Fill(addrs[:k])
		got += k
	}
}

// BenchmarkNetnsPingPong is a 64-byte frame there and back, both ends polled
// by the same goroutine.
func BenchmarkNetnsPingPong(b *testing.B) {
	c := newCable(b, cableConfig{})
	x, y := newStation(b, c.socket(0, 0, nil)), newStation(b, c.socket(1, 0, nil))
	ends := [2]*station{x, y}
	var send [2][]xsk.Desc
	for i, e := range ends {
		send[i] = e.lay(payload(64, 1))
	}
	descs, addrs := make([]xsk.Desc, 8), make([]uint64, 8)
	for b.Loop() {
		for i, e := range ends {
			if n, err := e.port.Submit(send[i]), e.port.Kick(); n != 1 || err != nil {
				b.Fatal(n, err)
			}
			drain(e.port, ends[1-i].port, 1, descs, addrs)
		}
	}
}

// BenchmarkNetnsWaiter is one wake-up of a sleeping goroutine and the answer.
func BenchmarkNetnsWaiter(b *testing.B) {
	c := newCable(b, cableConfig{})
	w := newWaiter(b, c.socket(0, 0, nil))
	var asked, stop atomic.Int64
	answers, done := make(chan struct{}, 1), make(chan struct{}, 2)
	go func() {
		defer func() { done <- struct{}{} }()
		for answered := int64(0); stop.Load() == 0; {
			if _, err := w.Sleep(-1); err != nil {
				b.Error(err)
				return
			}
			for ; answered < asked.Load(); answered++ {
				answers <- struct{}{}
			}
		}
	}()
	// Asked from a goroutine of its own too: the one of the benchmark is locked
	// to its thread, which alone costs 10 us for a hand-over.
	go func() {
		defer func() { done <- struct{}{} }()
		for b.Loop() {
			asked.Add(1)
			w.Wake()
			<-answers
		}
		stop.Store(1)
		w.Wake()
	}()
	<-done
	<-done
}

// BenchmarkWakeAwake is a Wake that finds nobody asleep.
func BenchmarkWakeAwake(b *testing.B) {
	w := newWaiter(b)
	for b.Loop() {
		w.Wake()
	}
}
