package xsk_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
)

func TestNetnsTransfer(t *testing.T) {
	for _, tc := range []struct {
		name  string
		size  int
		burst int
		cable cableConfig
		opts  xsk.Options
	}{
		{name: "64 bytes", size: 64, burst: 1},
		{name: "full MTU", size: 1514, burst: 1},
		{name: "burst of 256", size: 64, burst: 256},
		{name: "burst of 256, least budget", size: 64, burst: 256, opts: xsk.Options{TxBudget: 1}},
		{name: "burst fills small rings", size: 128, burst: 64, opts: xsk.Options{FillSize: 64, CompSize: 64, RxSize: 64, TxSize: 64}},
		{name: "copy mode", size: 64, burst: 33, opts: xsk.Options{Mode: xsk.Copy}},
		{name: "without wake-up flags", size: 64, burst: 33, opts: xsk.Options{NoNeedWakeup: true}},
		{name: "headroom", size: 1514, burst: 3, opts: xsk.Options{UMEMConfig: xsk.UMEMConfig{Headroom: 192}}},
		{name: "frames of 2048", size: 1514, burst: 3, opts: xsk.Options{UMEMConfig: xsk.UMEMConfig{FrameSize: 2048}}},
		{name: "unaligned", size: 1514, burst: 40, opts: xsk.Options{UMEMConfig: xsk.UMEMConfig{FrameSize: 3000, Unaligned: true}}},
		{name: "unaligned with headroom", size: 1514, burst: 5, opts: xsk.Options{UMEMConfig: xsk.UMEMConfig{FrameSize: 4096, Headroom: 64, Unaligned: true}}},
		{name: "transmit metadata area", size: 64, burst: 2, opts: xsk.Options{UMEMConfig: xsk.UMEMConfig{TxMetadataLen: 24}}},
		{
			name: "9000 bytes in several buffers", size: 9014, burst: 7,
			cable: cableConfig{mtu: 9000, frags: true}, opts: xsk.Options{MultiBuffer: true},
		},
		{
			name: "9000 bytes, unaligned", size: 9014, burst: 7,
			cable: cableConfig{mtu: 9000, frags: true},
			opts:  xsk.Options{MultiBuffer: true, UMEMConfig: xsk.UMEMConfig{FrameSize: 2500, Unaligned: true}},
		},
		{
			name: "one byte in the second buffer", size: 3841, burst: 2,
			cable: cableConfig{mtu: 9000, frags: true}, opts: xsk.Options{MultiBuffer: true},
		},
		{name: "busy polling", size: 64, burst: 3, opts: xsk.Options{BusyPoll: xsk.BusyPoll{Usecs: 20, Budget: 16}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCable(t, tc.cable)
			sa, sb := c.socket(0, 0, &tc.opts), c.socket(1, 0, &tc.opts)
			a, b := newStation(t, sa), newStation(t, sb)
			for round := range 4 {
				from, to := a, b
				if round%2 == 1 {
					from, to = b, a
				}
				var want [][]byte
				buffers := 0
				for i := range tc.burst {
					f := payload(tc.size, uint64(round*1000+i))
					buffers += (len(f) + sa.UMEM().FrameSize() - 1) / sa.UMEM().FrameSize()
					want = append(want, f)
				}
				from.send(want...)
				if n := from.port.TxPending(); n != 0 {
					t.Fatalf("%d descriptors still queued after Kick", n)
				}
				checkFrames(t, to.recvN(tc.burst), want)
				from.reap(buffers)
			}
			checkAllHome(t, a)
			checkAllHome(t, b)
			st, err := sa.Stats()
			if err != nil {
				t.Fatal(err)
			}
			frames, bytes := uint64(2*tc.burst), uint64(2*tc.burst*tc.size)
			if st.TxFrames != frames || st.RxFrames != frames || st.TxBytes != bytes || st.RxBytes != bytes || st.TxBuffers != st.Completed {
				t.Errorf("counters are off after %d frames and %d bytes each way: %+v", frames, bytes, st)
			}
			if st.Kernel != (xsk.KernelStats{TxRingEmpty: st.Kernel.TxRingEmpty}) {
				t.Errorf("the kernel dropped something: %+v", st.Kernel)
			}
		})
	}
}

// The halves of a socket belong to a goroutine each.
func TestNetnsHalves(t *testing.T) {
	c := newCable(t, cableConfig{})
	s, far := c.socket(0, 0, nil), newStation(t, c.socket(1, 0, nil))
	if s.Ifindex() != c.ifindex(0) || s.Queue() != 0 {
		t.Errorf("socket of interface %d, queue %d", s.Ifindex(), s.Queue())
	}
	const total = 2000
	pools := [2]*xsk.Pool{xsk.NewPool(s.UMEM(), 0, 1024), xsk.NewPool(s.UMEM(), 1024, 1024)}
	var wg sync.WaitGroup
	wg.Go(func() {
		rx, pool := s.RX(), pools[0]
		var addrs [64]uint64
		var descs [64]xsk.Desc
		for got, deadline := 0, time.Now().Add(10*time.Second); got < total && time.Now().Before(deadline); {
			free := addrs[:min(len(addrs), rx.FillFree())]
			rx.Fill(free[:pool.Get(free)])
			n := rx.Receive(descs[:])
			for _, d := range descs[:n] {
				pool.Put(d.Addr)
			}
			if got += n; n == 0 {
				runtime.Gosched()
			}
		}
	})
	wg.Go(func() {
		tx, pool := s.TX(), pools[1]
		var addrs [64]uint64
		for sent, deadline := 0, time.Now().Add(10*time.Second); sent < total && time.Now().Before(deadline); {
			pool.PutAll(addrs[:tx.Complete(addrs[:])])
			addr, ok := pool.GetOne()
			if !ok {
				runtime.Gosched()
				continue
			}
			d := xsk.Desc{Addr: addr, Len: 64}
			copy(s.Frame(d), payload(64, uint64(sent)))
			n, err := tx.Transmit([]xsk.Desc{d})
			if err != nil {
				t.Errorf("Transmit: %v", err)
				return
			}
			sent += n
		}
	})
	received := 0
	deadline := time.Now().Add(10 * time.Second)
	for sent := 0; sent < total && time.Now().Before(deadline); {
		// As many in flight as the receiving half surely has filled.
		if n := far.port.CompAvail(); n != 0 {
			far.reap(n)
		}
		if st, err := s.Stats(); err != nil || sent-int(st.RxFrames) > 32 {
			runtime.Gosched()
		} else if st.Filled > 64 {
			far.send(payload(64, uint64(sent)))
			sent++
		}
		received += len(far.recv())
	}
	wg.Wait()
	eventually(t, "all frames arrive", func() bool {
		received += len(far.recv())
		return received == total
	})
	st, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if st.RxFrames != total || st.TxFrames != total || pools[0].Rejected()+pools[1].Rejected() != 0 {
		t.Errorf("%d frames received and %d sent of %d; kernel %+v", st.RxFrames, st.TxFrames, total, st.Kernel)
	}
}

// checkAllHome checks that every frame is in the pool or lent to the kernel.
func checkAllHome(t *testing.T, s *station) {
	t.Helper()
	st, err := s.port.Stats()
	if err != nil {
		t.Fatal(err)
	}
	lent := int(st.Filled - st.RxBuffers)
	if s.pool.Free()+lent != s.pool.Size() || s.pool.Rejected() != 0 {
		t.Errorf("%d frames in the pool and %d lent of %d; %d puts rejected", s.pool.Free(), lent, s.pool.Size(), s.pool.Rejected())
	}
}
