package xsk_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
)

// station is a port with a pool, sending and receiving whole frames. What it
// does not keep it puts back.
type station struct {
	t    testing.TB
	port xsk.Port
	pool *xsk.Pool
}

func newStation(t testing.TB, port xsk.Port) *station {
	t.Helper()
	s := &station{t: t, port: port, pool: xsk.NewPool(port.UMEM(), 0, port.UMEM().Frames())}
	s.fill(min(port.FillFree(), s.pool.Size()/2))
	return s
}

func (s *station) fill(n int) {
	s.t.Helper()
	addrs := make([]uint64, n)
	if got := s.pool.Get(addrs); got != n {
		s.t.Fatalf("pool gave %d of %d frames", got, n)
	}
	// The kernel says that it has taken frames from the fill ring a moment after it
	// shows them as received.
	eventually(s.t, "the fill ring takes all frames", func() bool {
		addrs = addrs[s.port.Fill(addrs):]
		return len(addrs) == 0
	})
}

// payload returns a frame of n bytes with etherType whose contents tell seed.
func payload(n int, seed uint64) []byte {
	b := make([]byte, n)
	copy(b, []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, etherType >> 8, etherType & 0xff})
	for i := 14; i < n; i++ {
		b[i] = byte(seed) + byte(i*7)
	}
	if n >= 22 {
		binary.LittleEndian.PutUint64(b[14:], seed)
	}
	return b
}

// lay writes frame into frames of the pool and returns their descriptors.
func (s *station) lay(frame []byte) []xsk.Desc {
	s.t.Helper()
	var descs []xsk.Desc
	for len(frame) != 0 {
		addr, ok := s.pool.GetOne()
		if !ok {
			s.t.Fatal("no free frame to send from")
		}
		meta := s.port.UMEM().TxMetadataLen()
		d := xsk.Desc{Addr: addr + uint64(meta), Len: uint32(min(len(frame), s.port.UMEM().FrameSize()-meta))}
		copy(s.port.UMEM().Frame(d), frame)
		frame = frame[d.Len:]
		if len(frame) != 0 {
			d.Options = xsk.Continued
		}
		descs = append(descs, d)
	}
	return descs
}

// send transmits frames in one Submit and one Kick.
func (s *station) send(frames ...[]byte) {
	s.t.Helper()
	var descs []xsk.Desc
	for _, f := range frames {
		descs = append(descs, s.lay(f)...)
	}
	if n := s.port.Submit(descs); n != len(descs) {
		s.t.Fatalf("Submit took %d of %d descriptors", n, len(descs))
	}
	if err := s.port.Kick(); err != nil {
		s.t.Fatalf("Kick: %v", err)
	}
}

// recv returns what is in the receive ring as whole frames, and fills again.
func (s *station) recv() [][]byte {
	s.t.Helper()
	var frames [][]byte
	descs := make([]xsk.Desc, 64)
	var open []byte
	for n := s.port.Receive(descs); n != 0; n = s.port.Receive(descs) {
		if descs[n-1].Options&xsk.Continued != 0 {
			s.t.Fatal("Receive cut a frame")
		}
		for _, d := range descs[:n] {
			open = append(open, s.port.UMEM().Frame(d)...)
			if d.Options&xsk.Continued == 0 {
				frames, open = append(frames, open), nil
			}
			if !s.pool.Put(d.Addr) {
				s.t.Fatalf("received frame %#x is not one that was filled", d.Addr)
			}
		}
		s.fill(n)
	}
	return frames
}

// recvN waits for n frames.
func (s *station) recvN(n int) [][]byte {
	s.t.Helper()
	var frames [][]byte
	eventually(s.t, "frames arrive", func() bool {
		frames = append(frames, s.recv()...)
		return len(frames) >= n
	})
	return frames
}

// reap puts completed frames back until n were.
func (s *station) reap(n int) {
	s.t.Helper()
	addrs := make([]uint64, 64)
	eventually(s.t, "transmissions complete", func() bool {
		got := s.port.Complete(addrs)
		if s.pool.PutAll(addrs[:got]) != got {
			s.t.Fatal("completed frames are not ones that were sent")
		}
		n -= got
		return n <= 0
	})
	if n < 0 {
		s.t.Fatalf("%d completions too many", -n)
	}
}

func checkFrame(t testing.TB, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Fatalf("received %d bytes % x..., want %d bytes % x...", len(got), got[:min(24, len(got))], len(want), want[:min(24, len(want))])
	}
}

func checkFrames(t testing.TB, got, want [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("received %d frames, want %d", len(got), len(want))
	}
	for i := range want {
		checkFrame(t, got[i], want[i])
	}
}
