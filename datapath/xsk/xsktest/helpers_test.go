package xsktest_test

import (
	"bytes"
	"testing"

	"go.uber.org/goleak"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/datapath/xsk/xsktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// station is a port with a pool of all frames of its memory, half of them
// filled.
type station struct {
	t    testing.TB
	port *xsktest.Port
	pool *xsk.Pool
}

func pair(t testing.TB, cfg xsktest.Config) (a, b *station) {
	t.Helper()
	pa, pb := xsktest.Pair(cfg)
	t.Cleanup(func() {
		for _, p := range []*xsktest.Port{pa, pb} {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return newStation(t, pa, -1), newStation(t, pb, -1)
}

func newStation(t testing.TB, p *xsktest.Port, fill int) *station {
	t.Helper()
	s := &station{t: t, port: p, pool: xsk.NewPool(p.UMEM(), 0, p.UMEM().Frames())}
	if fill < 0 {
		fill = min(s.pool.Size()/2, p.FillFree())
	}
	s.fill(fill)
	return s
}

func (s *station) fill(n int) {
	s.t.Helper()
	addrs := make([]uint64, n)
	if got := s.port.Fill(addrs[:s.pool.Get(addrs)]); got != n {
		s.t.Fatalf("filled %d of %d", got, n)
	}
}

func frame(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i*3)
	}
	return b
}

// queue submits a frame, in buffers of the frame size.
func (s *station) queue(f []byte) {
	s.t.Helper()
	var descs []xsk.Desc
	for len(f) != 0 {
		addr, ok := s.pool.GetOne()
		if !ok {
			s.t.Fatal("no free frame")
		}
		d := xsk.Desc{Addr: addr, Len: uint32(min(len(f), s.port.UMEM().FrameSize()))}
		copy(s.port.Frame(d), f)
		if f = f[d.Len:]; len(f) != 0 {
			d.Options = xsk.Continued
		}
		descs = append(descs, d)
	}
	if n := s.port.Submit(descs); n != len(descs) {
		s.t.Fatalf("Submit took %d of %d", n, len(descs))
	}
}

func (s *station) send(frames ...[]byte) {
	s.t.Helper()
	for _, f := range frames {
		s.queue(f)
	}
	if err := s.port.Kick(); err != nil {
		s.t.Fatal(err)
	}
}

// recv returns the frames that wait and gives their buffers back to the pool.
func (s *station) recv() [][]byte {
	s.t.Helper()
	var frames [][]byte
	var open []byte
	descs := make([]xsk.Desc, 8)
	for n := s.port.Receive(descs); n != 0; n = s.port.Receive(descs) {
		for _, d := range descs[:n] {
			open = append(open, s.port.Frame(d)...)
			if d.Options&xsk.Continued == 0 {
				frames, open = append(frames, open), nil
			}
			if !s.pool.Put(d.Addr) {
				s.t.Fatalf("buffer %#x is not one that was filled", d.Addr)
			}
		}
	}
	if open != nil {
		s.t.Fatal("Receive cut a frame")
	}
	return frames
}

// want receives and compares.
func (s *station) want(frames ...[]byte) {
	s.t.Helper()
	got := s.recv()
	if len(got) != len(frames) {
		s.t.Fatalf("received %d frames, want %d", len(got), len(frames))
	}
	for i := range frames {
		if !bytes.Equal(got[i], frames[i]) {
			s.t.Fatalf("frame %d differs: %d bytes, want %d", i, len(got[i]), len(frames[i]))
		}
	}
}

// reap puts completed frames back and returns how many.
func (s *station) reap() int {
	s.t.Helper()
	total := 0
	addrs := make([]uint64, 8)
	for n := s.port.Complete(addrs); n != 0; n = s.port.Complete(addrs) {
		if s.pool.PutAll(addrs[:n]) != n {
			s.t.Fatal("completed frames are not ones that were sent")
		}
		total += n
	}
	return total
}

func (s *station) stats() xsk.Stats {
	s.t.Helper()
	st, err := s.port.Stats()
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}
