package datapath

import (
	"fmt"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// early is a SEND to end B of p that has n bytes of payload and comes ahead packets
// after the one that is expected.
func early(p *verbstest.Pair, ahead, n int) []byte {
	const ip, bth = wire.EthernetLen, wire.EthernetLen + wire.IPv4Len + wire.UDPLen
	out := fuzzFrame(wire.SendOnly, n)
	src, dst := addrA.As4(), addrB.As4()
	copy(out[ip+12:], src[:]) // the other way round; the checksum is the same
	copy(out[ip+16:], dst[:])
	h := wire.BTHAt(out[bth:])
	h.SetDestQP(p.B.QP.Num())
	h.SetPSN(h.PSN().Add(ahead))
	wire.PutICRC(out, ip)
	return out
}

// TestKeepersLeaveFrames: queue pairs of all workers, and of many clients, keep what
// one socket receives. It has frames to receive into all the same, and who keeps
// nothing does not notice.
func TestKeepersLeaveFrames(t *testing.T) {
	for _, tt := range []struct {
		name    string
		queues  int
		clients int
		frame   int // size in bytes
		mtu     int
		payload int
	}{
		{"four workers", 4, 1, 4096, 1500, 100},
		{"eight workers", 8, 1, 4096, 1500, 100},
		{"two workers, many clients", 2, 6, 4096, 1500, 100},
		{"packets of two buffers", 4, 1, 4096, 9000, 4096},
		{"packets of more buffers than they should have", 1, 6, 2048, 9000, 8000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, rigOptions{queues: tt.queues, mtu: tt.mtu, opts: Options{FrameSize: tt.frame}})
			port, own := r.ports[1][0], r.b.workers[0]
			var greedy []*verbstest.Pair
			for i := range tt.clients {
				_, ctx := client(t, r.b, &ClientConfig{Name: fmt.Sprint("greedy ", i)})
				for range tt.queues {
					p, err := verbstest.NewPair(verbs.RC, r.ca, ctx, verbstest.Options{PSN: 1, Timeout: slow})
					must(t, err)
					greedy = append(greedy, p)
				}
			}
			good := r.pair(verbstest.Options{Timeout: slow})
			sent := uint64(0)
			for i := 1; i <= r.b.opts.Frames; i++ {
				for _, p := range greedy {
					if !port.Inject(early(p, i, tt.payload)) {
						t.Fatalf("the socket has no frame to receive into after %d packets", sent)
					}
					sent++
				}
				waitFor(t, "the packets are kept or dropped", func() bool {
					return counterOf(t, r.b, "out_of_order_kept")+counterOf(t, r.b, "drop_out_of_order") == sent
				})
				if counterOf(t, r.b, "drop_out_of_order") > sent/2 {
					break
				}
			}
			homeFrames := func() (kept, short int) {
				must(t, own.acquire())
				defer own.release(controller)
				return r.b.share.rxFrames - own.rx.Free() - (r.b.opts.RingSize - own.unfilled), own.unfilled
			}
			kept, short := homeFrames()
			if kept < r.b.share.rxFrames/5 || kept > r.b.share.rxFrames/2 {
				t.Errorf("%d of %d frames are kept", kept, r.b.share.rxFrames)
			}
			if short != 0 {
				t.Errorf("the socket wants %d frames", short)
			}
			must(t, good.Every(1, 4096, 100_000))
			r.checkNoRetry()
			for _, p := range greedy {
				must(t, p.Close())
			}
			r.checkMemory()
			for i := range r.b.keptOf {
				if n := r.b.keptOf[i].n.Load(); n != 0 {
					t.Errorf("worker %d is wanting %d frames for ever", i, n)
				}
			}
		})
	}
}
