package datapath

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/shm"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

func cpus(list ...int) (s unix.CPUSet) {
	for _, c := range list {
		s.Set(c)
	}
	return s
}

func TestWithout(t *testing.T) {
	for _, tt := range []struct {
		name            string
		set, others     unix.CPUSet
		want            unix.CPUSet
		nothingIsLeftOf bool
	}{
		{"one client", cpus(0, 1), cpus(0), cpus(1), false},
		{"clients elsewhere", cpus(2, 3, 200), cpus(3, 70), cpus(2, 200), false},
		{"clients everywhere", cpus(0, 1), cpus(0, 1, 2), cpus(), true},
	} {
		got, ok := without(tt.set, tt.others)
		if got != tt.want || ok == tt.nothingIsLeftOf {
			t.Errorf("%s: %v, %v", tt.name, got, ok)
		}
	}
}

// ownThread runs f on a thread that ends with it, whatever f does to it.
func ownThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		f()
	}()
	<-done
}

// TestStepAside: a worker on the CPU of its client goes to another for a while, and
// may run anywhere afterwards.
func TestStepAside(t *testing.T) {
	ownThread(func() {
		var allowed, now unix.CPUSet
		if err := unix.SchedGetaffinity(0, &allowed); err != nil {
			t.Error(err)
			return
		}
		s := seat{own: true}
		// The kernel may move the thread between the two calls.
		for range 1000 {
			if s.step(1, cpus(shm.CPU())); s.insists {
				break
			}
		}
		_ = unix.SchedGetaffinity(0, &now)
		switch {
		case allowed.Count() == 1:
			if s.insists || now != allowed {
				t.Errorf("with one CPU: %+v, may run on %v", s, now)
			}
			return
		case !s.insists || now.Count() != allowed.Count()-1 || !now.IsSet(shm.CPU()) || s.stepped != 1:
			t.Errorf("%+v, may run on %v of %v, runs on %d", s, now, allowed, shm.CPU())
		}
		s.relent()
		if _ = unix.SchedGetaffinity(0, &now); now != allowed || s.insists {
			t.Errorf("afterwards it may run on %v of %v", now, allowed)
		}
		// Nobody is here, or everybody is everywhere, or what was said makes no sense.
		s = seat{own: true}
		for _, clients := range []unix.CPUSet{cpus(), allowed, cpus(1023), cpus(1 << 30)} {
			if s.step(1, clients); s.insists && clients != cpus(1023) {
				t.Errorf("clients on %v: %+v", clients, s)
			}
		}
	})
}

// TestSeat: who has programs in other processes has a thread for them and looks where
// they are, and ends that with them.
func TestSeat(t *testing.T) {
	r := newRig(t, rigOptions{opts: Options{NoBackground: true, OwnThreads: true}})
	w := r.b.workers[0]
	ownThread(func() {
		now := mono.Time(1)
		settle := func() { now = now.Add(seatEvery); w.seat.settle(w, now) }
		if settle(); w.seat.own {
			t.Error("a thread for nobody")
		}
		b, ctx := newRemote(t, r.b, ClientConfig{Name: "b"})
		p, err := verbstest.NewPair(verbs.RC, r.ca, ctx, verbstest.Options{Timeout: slow})
		if err != nil {
			t.Error(err)
			return
		}
		if settle(); !w.seat.own {
			t.Error("no thread")
		}
		for _, tt := range []struct {
			said int
			want unix.CPUSet
		}{{3, cpus(3)}, {-1, cpus()}, {1 << 20, cpus()}, {int(^uint32(0)) - 1, cpus()}} {
			b.bells[0].SetCPU(tt.said)
			if got := w.pollers(); got != cpus() {
				t.Errorf("client on CPU %d has rung nothing: %v", tt.said, got)
			}
			if err := p.B.Post(verbs.SendWR{WRID: 1, Opcode: verbs.OpRDMAWrite, RemoteAddr: p.A.MR.Addr(), RKey: p.A.MR.RKey()}); err != nil {
				t.Error(err)
			}
			progress(r.b)
			if got := w.pollers(); got != tt.want {
				t.Errorf("client on CPU %d: %v, want %v", tt.said, got, tt.want)
			}
		}
		// What it insists on ends with the time, and with the clients.
		var allowed, at unix.CPUSet
		_ = unix.SchedGetaffinity(0, &allowed)
		for _, end := range []func(){
			func() { now = now.Add(stepTime) },
			func() {
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			},
		} {
			w.seat.stepped = 0
			for range 1000 {
				if w.seat.step(now, cpus(shm.CPU())); w.seat.insists {
					break
				}
			}
			if w.seat.insists != (allowed.Count() > 1) {
				t.Errorf("%+v with %d CPUs", w.seat, allowed.Count())
			}
			end()
			settle()
			if _ = unix.SchedGetaffinity(0, &at); at != allowed || w.seat.insists {
				t.Errorf("it may run on %v of %v: %+v", at, allowed, w.seat)
			}
		}
		if w.seat.own {
			t.Error("the thread is still its own")
		}
	})
}

// TestOwnThreads: all works with threads of workers' own, which count for nothing when
// the clients are gone.
func TestOwnThreads(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(procs + 2)
	defer runtime.GOMAXPROCS(procs)
	r := newRig(t, rigOptions{opts: Options{OwnThreads: true}})
	ra, a := newRemote(t, r.a, ClientConfig{Name: "a"})
	_, b := newRemote(t, r.b, ClientConfig{Name: "b"})
	p, err := verbstest.NewPair(verbs.RC, a, b, verbstest.Options{Timeout: slow})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Every(0, 1, 4096, 100_000); err != nil {
		t.Error(err)
	}
	ra.bells[0].SetCPU(shm.CPU())
	for range 2000 {
		if err := write(p.A, p.B, 64); err != nil {
			t.Fatal(err)
		}
	}
}
