package xsktest_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/datapath/xsk/internal/ring"
	"github.com/roce-xdp/roce-xdp/datapath/xsk/xsktest"
)

func TestTransfer(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  xsktest.Config
		size int
		bufs int // that a frame takes when received
	}{
		{"small", xsktest.Config{}, 64, 1},
		{"one byte", xsktest.Config{}, 1, 1},
		{"whole buffer", xsktest.Config{}, 3840, 1},
		{"one byte more", xsktest.Config{MultiBuffer: true}, 3841, 2},
		{"jumbo", xsktest.Config{MultiBuffer: true}, 9014, 3},
		{"headroom", xsktest.Config{UMEMConfig: xsk.UMEMConfig{Headroom: 128}}, 3712, 1},
		{"small frames", xsktest.Config{UMEMConfig: xsk.UMEMConfig{FrameSize: 2048}, MultiBuffer: true}, 4160, 3},
		{"unaligned", xsktest.Config{UMEMConfig: xsk.UMEMConfig{FrameSize: 3000, Unaligned: true, Headroom: 32}, MultiBuffer: true}, 3000, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := pair(t, tc.cfg)
			for round := range 4 {
				from, to := a, b
				if round%2 == 1 {
					from, to = b, a
				}
				f, g := frame(tc.size, byte(round)), frame(tc.size, byte(round+100))
				from.send(f, g)
				if n := to.port.RxAvail(); n != 2*tc.bufs {
					t.Fatalf("%d buffers wait, want %d", n, 2*tc.bufs)
				}
				to.want(f, g)
				from.reap()
				if from.port.TxPending() != 0 || from.port.CompAvail() != 0 {
					t.Fatal("something is left")
				}
			}
			st := a.stats()
			if st.TxFrames != 4 || st.RxFrames != 4 || st.RxBytes != uint64(4*tc.size) || st.TxBytes != st.RxBytes ||
				st.RxBuffers != uint64(4*tc.bufs) || st.TxBuffers != st.Completed || st.Kernel != (xsk.KernelStats{}) {
				t.Errorf("counters are off: %+v", st)
			}
		})
	}
}

func TestDrops(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  xsktest.Config
		fill int
		send []int // frame sizes
		want int   // of them received
		drop xsk.KernelStats
	}{
		{"nothing filled", xsktest.Config{}, 0, []int{64}, 0, xsk.KernelStats{RxFillRingEmpty: 1}},
		{"too few filled", xsktest.Config{}, 2, []int{64, 64, 64}, 2, xsk.KernelStats{RxFillRingEmpty: 1}},
		{"too few for the second", xsktest.Config{MultiBuffer: true}, 3, []int{5000, 5000, 64}, 2, xsk.KernelStats{RxFillRingEmpty: 1}},
		{"receive ring full", xsktest.Config{RxSize: 2}, 8, []int{64, 64, 64}, 2, xsk.KernelStats{RxRingFull: 1}},
		{"no room for all buffers", xsktest.Config{RxSize: 2, MultiBuffer: true}, 8, []int{64, 5000}, 1, xsk.KernelStats{RxRingFull: 1}},
		{"too long for a buffer", xsktest.Config{}, 8, []int{3841, 64}, 1, xsk.KernelStats{RxDropped: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pa, pb := xsktest.Pair(tc.cfg)
			defer pa.Close()
			defer pb.Close()
			a, b := newStation(t, pa, 0), newStation(t, pb, tc.fill)
			for i, size := range tc.send {
				a.queue(frame(size, byte(i)))
			}
			if err := a.port.Kick(); err != nil {
				t.Fatal(err)
			}
			if n := len(b.recv()); n != tc.want {
				t.Errorf("received %d frames, want %d", n, tc.want)
			}
			if got := b.stats().Kernel; got != tc.drop {
				t.Errorf("counted %+v, want %+v", got, tc.drop)
			}
			if a.reap() == 0 || a.pool.Free() != a.pool.Size() {
				t.Error("dropped frames were not completed")
			}
		})
	}
}

// What the kernel would refuse is discarded without completion.
func TestInvalidDescriptors(t *testing.T) {
	const more = xsk.Continued
	long := make([]xsk.Desc, 19)
	for i := range long {
		long[i] = xsk.Desc{Addr: uint64(4096 * i), Len: 10, Options: more}
	}
	long[18].Options = 0
	for _, tc := range []struct {
		name  string
		descs []xsk.Desc
		multi bool
	}{
		{"outside the memory", []xsk.Desc{{Addr: 1 << 40, Len: 64}}, false},
		{"crosses frames", []xsk.Desc{{Addr: 4000, Len: 200}}, false},
		{"empty", []xsk.Desc{{Addr: 0}}, false},
		{"several buffers on a socket without", []xsk.Desc{{Len: 64, Options: more}, {Len: 64}}, false},
		{"bad second buffer", []xsk.Desc{{Len: 64, Options: more}, {Addr: 1 << 40, Len: 64}}, true},
		{"too many buffers", long, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := pair(t, xsktest.Config{MultiBuffer: tc.multi})
			if n := a.port.Submit(tc.descs); n != len(tc.descs) {
				t.Fatalf("Submit took %d", n)
			}
			a.send(frame(64, 1)) // goes through all the same
			b.want(frame(64, 1))
			if got := a.stats().Kernel.TxInvalidDescs; got != uint64(len(tc.descs)) {
				t.Errorf("counted %d invalid descriptors, want %d", got, len(tc.descs))
			}
			if n := a.reap(); n != 1 {
				t.Errorf("%d completions, want the one of the good frame", n)
			}
		})
	}
}

func TestInvalidFill(t *testing.T) {
	pa, pb := xsktest.Pair(xsktest.Config{})
	defer pa.Close()
	defer pb.Close()
	a, b := newStation(t, pa, 0), newStation(t, pb, 0)
	b.port.Fill([]uint64{1 << 45})
	b.fill(1)
	b.port.Fill([]uint64{uint64(len(b.port.UMEM().Bytes()))})
	a.send(frame(64, 1), frame(64, 2))
	b.want(frame(64, 1))
	if k := b.stats().Kernel; k.RxInvalidDescs != 2 || k.RxFillRingEmpty != 1 {
		t.Errorf("counted %+v, want two invalid and one without a frame", k)
	}
}

func TestHook(t *testing.T) {
	a, b := pair(t, xsktest.Config{Hook: func(f []byte) xsktest.Action {
		switch f[0] {
		case 1:
			return xsktest.Drop
		case 2:
			return xsktest.Duplicate
		}
		f[1] ^= 0xff
		return xsktest.Deliver
	}})
	changed := frame(64, 3)
	changed[1] ^= 0xff
	a.send(frame(64, 1), frame(64, 2), frame(64, 3))
	b.want(frame(64, 2), frame(64, 2), changed)
	if n := a.reap(); n != 3 {
		t.Errorf("%d completions, want 3", n)
	}

	// A port's own hook takes the place of the pair's, in its direction only.
	a.port.SetHook(nil)
	a.send(frame(64, 1))
	b.want(frame(64, 1))
	b.send(frame(64, 1))
	a.want()
	a.port.SetHook(func([]byte) xsktest.Action { return xsktest.Drop })
	a.send(frame(64, 2))
	b.want()
}

func TestTxBudget(t *testing.T) {
	a, b := pair(t, xsktest.Config{TxBudget: 3, MultiBuffer: true})
	for i := range 4 {
		a.queue(frame(64, byte(i)))
	}
	a.queue(frame(5000, 4))      // two descriptors
	a.queue(frame(64*1024-1, 5)) // 16, more than the budget, which still goes alone
	for _, want := range []int{3, 2, 1} {
		if err := a.port.Kick(); err != nil {
			t.Fatal(err)
		}
		if n := len(b.recv()); n != want {
			t.Fatalf("a Kick delivered %d frames, want %d", n, want)
		}
	}
	if st := a.stats(); a.port.TxPending() != 0 || st.KickLater != 2 || st.Kicks != 3 {
		t.Errorf("%d pending after %d Kicks, of which %d left something", a.port.TxPending(), st.Kicks, st.KickLater)
	}
}

func TestCompletionRingFull(t *testing.T) {
	a, b := pair(t, xsktest.Config{CompSize: 2})
	a.send(frame(64, 1), frame(64, 2), frame(64, 3))
	b.want(frame(64, 1), frame(64, 2))
	if a.port.TxPending() != 1 || a.port.CompAvail() != 2 {
		t.Fatalf("%d pending and %d completed", a.port.TxPending(), a.port.CompAvail())
	}
	a.reap()
	if err := a.port.Kick(); err != nil {
		t.Fatal(err)
	}
	b.want(frame(64, 3))
}

func TestDown(t *testing.T) {
	a, b := pair(t, xsktest.Config{})
	a.port.SetDown(true)
	a.queue(frame(64, 1))
	if err := a.port.Kick(); !errors.Is(err, xsk.ErrDown) || a.port.TxPending() != 1 {
		t.Errorf("Kick while down: %v with %d pending", err, a.port.TxPending())
	}
	if err := a.port.WakeFill(); !errors.Is(err, xsk.ErrDown) {
		t.Errorf("WakeFill while down: %v", err)
	}
	b.send(frame(64, 9)) // lost
	a.port.SetDown(false)
	a.send()
	b.want(frame(64, 1))
	a.want()
	if st := a.stats(); st.KickErrors != 1 || st.FillWakeupErrors != 1 || st.Kernel.RxDropped != 1 {
		t.Errorf("counted %+v", st)
	}
}

func TestFillWakeup(t *testing.T) {
	pa, pb := xsktest.Pair(xsktest.Config{FillWakeup: true})
	defer pa.Close()
	defer pb.Close()
	a, b := newStation(t, pa, 0), newStation(t, pb, 1)
	a.send(frame(64, 1))
	if b.port.NeedFillWakeup() {
		t.Error("asks although all went well")
	}
	a.send(frame(64, 2))
	if !b.port.NeedFillWakeup() {
		t.Fatal("does not ask after running out")
	}
	b.fill(4)
	a.send(frame(64, 3)) // lost: the driver sleeps
	if err := b.port.WakeFill(); err != nil || b.port.NeedFillWakeup() {
		t.Fatalf("WakeFill: %v, still asks: %v", err, b.port.NeedFillWakeup())
	}
	a.send(frame(64, 4))
	b.want(frame(64, 1), frame(64, 4))
	if st := b.stats(); st.FillWakeups != 1 || st.Kernel.RxFillRingEmpty != 2 {
		t.Errorf("counted %+v", st)
	}
}

func TestInject(t *testing.T) {
	a, _ := pair(t, xsktest.Config{})
	if !a.port.Inject(frame(100, 5)) || a.port.Inject(nil) || a.port.Inject(frame(5000, 1)) {
		t.Error("Inject says what is not so")
	}
	a.want(frame(100, 5))
}

// Two queues of two devices, each with one memory.
func TestSharedUMEM(t *testing.T) {
	var umems [2]*xsk.UMEM
	for i := range umems {
		u, err := xsk.NewUMEM(xsk.UMEMConfig{Frames: 64})
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		umems[i] = u
	}
	for q := range 2 {
		pa, pb := xsktest.Pair(xsktest.Config{UMEM: umems})
		if pa.UMEM() != umems[0] || pb.UMEM() != umems[1] || pa.Peer() != pb || pb.Peer() != pa {
			t.Fatal("joined the wrong way")
		}
		a := &station{t: t, port: pa, pool: xsk.NewPool(umems[0], 32*q, 32)}
		b := &station{t: t, port: pb, pool: xsk.NewPool(umems[1], 32*q, 32)}
		b.fill(8)
		a.send(frame(64, byte(q)))
		b.want(frame(64, byte(q)))
		if err := pa.Close(); err != nil {
			t.Error(err)
		}
		if err := pb.Close(); err != nil {
			t.Error(err)
		}
	}
	if umems[0].Frame(xsk.Desc{Len: 1}) == nil {
		t.Error("closing a port closed memory that is not its own")
	}
}

func TestClosed(t *testing.T) {
	a, b := pair(t, xsktest.Config{})
	a.queue(frame(64, 1))
	for range 2 {
		if err := a.port.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.port.Kick(); !errors.Is(err, xsk.ErrClosed) {
		t.Errorf("Kick after Close: %v", err)
	}
	b.send(frame(64, 2)) // lost, without harm
	if a.port.RxAvail() != 0 {
		t.Error("a closed port received")
	}
}

func TestBadConfig(t *testing.T) {
	for name, cfg := range map[string]xsktest.Config{
		"ring":   {RxSize: 3},
		"memory": {UMEMConfig: xsk.UMEMConfig{FrameSize: 7}},
	} {
		func() {
			defer func() {
				err, _ := recover().(error)
				if !errors.Is(err, xsk.ErrConfig) && !errors.Is(err, ring.ErrSize) {
					t.Errorf("%s: panic with %v", name, err)
				}
			}()
			xsktest.Pair(cfg)
		}()
	}
}

func TestNothingAllocates(t *testing.T) {
	a, b := pair(t, xsktest.Config{})
	a.send(frame(4096, 1)) // grows the buffer for a frame in flight
	a.reap()
	var ds, dr [1]xsk.Desc
	var addr [1]uint64
	ds[0] = xsk.Desc{Addr: 256, Len: 64}
	if n := testing.AllocsPerRun(100, func() {
		a.port.Submit(ds[:])
		if err := a.port.Kick(); err != nil {
			t.Fatal(err)
		}
		if b.port.Receive(dr[:]) != 1 || a.port.Complete(addr[:]) != 1 {
			t.Fatal("nothing arrived")
		}
		addr[0] = dr[0].Addr
		b.port.Fill(addr[:])
	}); n != 0 {
		t.Errorf("%v allocations for a frame", n)
	}
}

// Both ends at full speed on a goroutine each, for the race detector. Frames
// arrive in order; none is lost while enough are filled.
func TestConcurrent(t *testing.T) {
	const total = 5000
	a, b := pair(t, xsktest.Config{})
	var wg sync.WaitGroup
	for _, s := range []*station{a, b} {
		wg.Go(func() {
			sent, got := 0, 0
			for sent < total || got < total {
				// Not further ahead of the peer than its filled frames allow.
				if sent < total && sent-got < 200 {
					s.queue([]byte{byte(sent), byte(sent >> 8)})
					sent++
				}
				if err := s.port.Kick(); err != nil {
					t.Error(err)
					return
				}
				for _, f := range s.recv() {
					if f[0] != byte(got) || f[1] != byte(got>>8) {
						t.Errorf("frame %d says % x", got, f)
						return
					}
					got++
					s.fill(1)
				}
				s.reap()
			}
		})
	}
	wg.Wait()
	for _, s := range []*station{a, b} {
		if k := s.stats().Kernel; k != (xsk.KernelStats{}) {
			t.Errorf("dropped %+v", k)
		}
	}
}
