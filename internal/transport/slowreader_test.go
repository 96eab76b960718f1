//go:build !race

package transport_test

import (
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// A requester that asks for a READ of any length by one request and keeps nothing
// that comes after a gap. What it misses it asks for when no response has come for
// readerTimeout, as rdma_rxe does, or as soon as it sees the gap, as adapters do.
type slowReader struct {
	*netSim
	star  *simnet.Star
	ours  *simQP
	path  wire.Path
	eager bool

	size  int // bytes of a READ
	first psn.PSN
	want  psn.PSN // the next response
	left  int     // responses that are missing
	asked psn.PSN // where the last request began
	timer mono.Time
	asks  int // requests
	wrong int // responses that were not as they must be
}

const (
	readerTimeout = 1073 * time.Millisecond // local ACK timeout with the exponent 18
	readerMTU     = 1024
	readerRate    = 100_000_000 // bit/s that the reader takes: 11,000 packets in a second
	readerQueue   = 1000 * (readerMTU + 100)
)

// newSlowReader has one of our responders answer it through a switch whose port to
// the reader has the conditions down.
func newSlowReader(t *testing.T, down simnet.Conditions) *slowReader {
	up := simnet.Conditions{Rate: 4_000_000_000, Delay: 20 * time.Microsecond}
	down.Delay = max(down.Delay, up.Delay)
	star := simnet.NewStar(1, 2, up, up)
	star.SetDown(1, down)
	s := newNetSim(t, star, up.Rate)
	c := flowConfig{op: ibv.WRRDMARead, size: 16 << 20, mtu: ibv.MTU1024, timeout: goodputTimeout, slots: 1}
	a, b := s.addHost(0).addQP(c), s.addHost(0).addQP(c)
	a.connect(b)
	b.connect(a)
	fillSlots(a.mem, 1021)
	return &slowReader{netSim: s, star: star, ours: a, path: b.path, timer: mono.Never}
}

// read is one READ of n bytes. It returns how long that took, and how many requests.
func (r *slowReader) read(n int) (took time.Duration, asks int) {
	r.Helper()
	began := r.now
	r.size, r.left, r.first, r.asks = n, n/readerMTU, r.want, 0
	r.ask()
	for r.left > 0 {
		h := r.hosts[0]
		next := mono.Min(r.timer, mono.Min(r.net.Next(), h.next()))
		if r.steps++; next == mono.Never || r.steps > simMaxSteps || next > began.Add(5*time.Minute) {
			r.Fatalf("the READ of %d bytes does not end: %d responses are missing after %d requests", n, r.left, r.asks)
		}
		r.now = later(r.now, next)
		for {
			to, frame, ok := r.net.Receive(r.now)
			if !ok {
				break
			}
			if to == 0 {
				h.receive(frame)
			} else {
				r.receive(frame)
			}
		}
		if r.timer <= r.now && r.left > 0 {
			r.ask()
		}
		if h.next() <= r.now {
			h.wake()
			h.transmit()
		}
	}
	if r.wrong != 0 {
		r.Fatalf("%d responses were wrong", r.wrong)
	}
	return r.now.Sub(began), r.asks
}

// ask asks for what is missing.
func (r *slowReader) ask() {
	r.asks++
	r.asked = r.want
	r.timer = r.now.Add(readerTimeout)
	off := r.want.Sub(r.first) * readerMTU
	frame := make([]byte, r.path.Len()+wire.BTHLen+wire.RETHLen+wire.ICRCLen)
	ib := frame[r.path.Put(frame, len(frame)-r.path.Len(), 0):]
	h := wire.BTHAt(ib)
	h.SetOpcode(wire.RC | wire.ReadRequest)
	h.SetPKey(wire.DefaultPKey)
	h.SetDestQP(simQPN)
	h.SetPSN(r.want)
	wire.RETHAt(ib[wire.BTHLen:]).Encode(&wire.RETHFields{
		VA: r.ours.region.Start() + uint64(off), RKey: r.ours.region.RKey(), DMALen: uint32(r.size - off),
	})
	r.net.Send(r.now, 1, 0, frame)
}

func (r *slowReader) receive(frame []byte) {
	var p wire.Packet
	if why := p.ParseHeaders(frame); why != wire.Accept {
		r.Fatalf("the reader got %v", why)
	}
	r.timer = r.now.Add(readerTimeout)
	switch at := p.Hdr().PSN(); {
	case at == r.want:
		off := r.want.Sub(r.first) * readerMTU
		if p.PayloadLen != readerMTU || p.Segments()[0][0] != r.ours.mem[off] || p.Segments()[0][readerMTU-1] != r.ours.mem[off+readerMTU-1] {
			r.wrong++
		}
		r.want = r.want.Next()
		r.left--
	case r.eager && r.want.Less(at) && r.asked != r.want:
		r.ask()
	}
}

// overruns is how often our end slowed its responses down.
func (r *slowReader) overruns() uint64 { return r.hosts[0].env.Counters[ReadOverruns] }

// A peer that cannot take the responses of a long READ at the rate of our link is
// soon sent them at a rate that it can take. Sent at full speed each READ takes 13
// to 19 s of a peer that waits for its timer.
func TestSlowReaderIsNotOverrun(t *testing.T) {
	const size = 16 << 20
	for _, c := range []struct {
		name  string
		eager bool
		down  simnet.Conditions
		first time.Duration // that the first READ may take
		later time.Duration // that each later one may take, on average
	}{
		{"100 Mbit/s", false, simnet.Conditions{Rate: readerRate, Queue: readerQueue}, 6 * time.Second, 2500 * time.Millisecond},
		{"50 Mbit/s", false, simnet.Conditions{Rate: readerRate / 2, Queue: readerQueue}, 9 * time.Second, 5 * time.Second},
		{"200 Mbit/s", false, simnet.Conditions{Rate: 2 * readerRate, Queue: readerQueue}, 5 * time.Second, 1800 * time.Millisecond},
		{"1 Gbit/s", false, simnet.Conditions{Rate: 10 * readerRate, Queue: readerQueue}, 4 * time.Second, time.Second},
		{"100 Mbit/s, asks at the gap", true, simnet.Conditions{Rate: readerRate, Queue: readerQueue}, 3 * time.Second, 2500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newSlowReader(t, c.down)
			r.eager = c.eager
			took, asks := r.read(size)
			t.Logf("first: %v, %d requests, %d overflowed", took, asks, r.star.Down(1).Overflowed)
			if took > c.first {
				t.Errorf("the first READ took %v and %d requests, want %v at most", took, asks, c.first)
			}
			const more = 10
			sum := time.Duration(0)
			for range more {
				took, asks = r.read(size)
				t.Logf("later: %v, %d requests, %d overflowed", took, asks, r.star.Down(1).Overflowed)
				sum += took
			}
			if sum/more > c.later {
				t.Errorf("later READs took %v on average, want %v at most", sum/more, c.later)
			}
			if r.overruns() == 0 {
				t.Error("nothing was overrun: the test tests nothing")
			}
		})
	}
}

// A peer that keeps up but loses packets at random gains nothing by slower
// responses. It is tried, since losses look alike, but not for long: without that
// these READs take 79, 179, 1213, 2226, 42115 and 329866 ms.
func TestReaderThatLosesPackets(t *testing.T) {
	for _, c := range []struct {
		name  string
		drop  float64
		delay time.Duration
		eager bool
		most  time.Duration // that all READs may take
	}{
		{"asks at the gap, 0.1 %", 0.001, 20 * time.Microsecond, true, 100 * time.Millisecond},
		{"asks at the gap, 0.1 %, far away", 0.001, 2 * time.Millisecond, true, 220 * time.Millisecond},
		{"asks at the gap, 1 %", 0.01, 20 * time.Microsecond, true, 1500 * time.Millisecond},
		{"waits for its timer, 0.01 %", 0.0001, 20 * time.Microsecond, false, 2500 * time.Millisecond},
		{"waits for its timer, 0.1 %", 0.001, 20 * time.Microsecond, false, 48 * time.Second},
		{"waits for its timer, 1 %", 0.01, 20 * time.Microsecond, false, 6 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newSlowReader(t, simnet.Conditions{Drop: c.drop, Delay: c.delay})
			r.eager = c.eager
			sum, n := time.Duration(0), 0
			for range 8 {
				took, asks := r.read(4 << 20)
				sum, n = sum+took, n+asks
			}
			t.Logf("%v, %d requests, %d slowed down", sum, n, r.overruns())
			if sum > c.most {
				t.Errorf("%v, want %v at most", sum, c.most)
			}
		})
	}
}
