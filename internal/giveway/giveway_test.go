package giveway

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	procs := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(procs)
	var p Pace
	p.Init(16)
	for _, tt := range []struct {
		took time.Duration
		want uint32 // empty polls after which it is due then
	}{
		{dear - 1, 16}, {dear, 32}, {time.Second, 64}, {cheap, 64}, {cheap - 1, 32}, {0, 16}, {0, 16},
		{dear, 32}, {dear, 64}, {dear, 128}, {dear, 256}, {dear, 512}, {dear, Most}, {dear, Most}, {0, Most / 2},
	} {
		p.took(tt.took)
		for n := uint32(1); n < tt.want; n++ {
			if p.Due(n) {
				t.Fatalf("after %v: due after %d empty polls, want %d", tt.took, n, tt.want)
			}
		}
		if !p.Due(tt.want) || !p.Due(3*tt.want) {
			t.Fatalf("after %v: not due after %d", tt.took, tt.want)
		}
	}
}

// A goroutine with a thread of its own gives way rarely, one that keeps others waiting
// often, and always so where there is one processor.
func TestPaceLearns(t *testing.T) {
	for _, tt := range []struct {
		name          string
		procs, others int
		locked        bool
		want          func(every uint32) bool
	}{
		{"a thread of its own", 2, 1, true, func(n uint32) bool { return n >= Most/4 }},
		{"others wait", 2, 2, false, func(n uint32) bool { return n <= 64 }},
		{"one processor", 1, 1, true, func(n uint32) bool { return n == 16 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			procs := runtime.GOMAXPROCS(tt.procs)
			defer runtime.GOMAXPROCS(procs)
			var stop atomic.Bool
			var wg sync.WaitGroup
			defer wg.Wait()
			defer stop.Store(true)
			for range tt.others {
				wg.Go(func() {
					for n := 0; !stop.Load(); n++ {
						if n%64 == 0 {
							runtime.Gosched()
						}
					}
				})
			}
			var got uint32
			ok := false
			wg.Go(func() {
				if tt.locked {
					runtime.LockOSThread()
					defer runtime.UnlockOSThread()
				}
				var p Pace
				p.Init(16)
				// Other programs may have the CPU meanwhile.
				for try := 0; try < 50 && !ok; try++ {
					for n := uint32(1); n < 16*1024; n++ {
						if p.Due(n) {
							p.GiveWay()
						}
					}
					got = p.every.Load()
					ok = tt.want(got)
				}
				stop.Store(true)
			})
			wg.Wait()
			if !ok {
				t.Errorf("it gives way after %d empty polls", got)
			}
		})
	}
}
