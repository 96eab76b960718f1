package integration_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// domains opens an XRC domain at each host, by a name that all pairs share.
func (r *rig) domains(t *testing.T) (d [2]*verbs.XRCD) {
	t.Helper()
	for i, dev := range []*verbs.Context{r.a, r.b} {
		var err error
		d[i], err = dev.OpenXRCD(&verbs.XRCDInitAttr{Name: "integration", Create: true})
		must(t, err)
	}
	return d
}

// TestXRC runs every operation of XRC between two hosts, then has four initiators
// send to four queues of one domain, each to each, over links without and with
// losses and with one and several receive queues.
func TestXRC(t *testing.T) {
	const n, size = 4, 100
	for _, queues := range []int{1, 4} {
		t.Run(fmt.Sprint(queues, " queues"), func(t *testing.T) {
			r := newRig(t, netns.PairOptions{MTU: 1500, Queues: queues, Bridge: true, StaticNeighbors: true}, nil)
			bad := loseFrames(t, r.hosts)
			o := verbstest.Options{BufferSize: 256 << 10, Timeout: 13, XRCD: r.domains(t)}
			pairs := make([]*verbstest.Pair, n)
			for i := range pairs {
				pairs[i] = verbstest.XRCPair(t, r.a, r.b, o)
			}
			for i, loss := range []float64{0, 0.02} {
				bad.set(t, loss)
				must(t, errors.Join(pairs[i].Every(0, 1, 1023, 1024, 1025, 50_000), pairs[i].Reverse().Every(0, 3000)))
				for round := range 5 {
					eachToEach(t, pairs, size, byte(round))
				}
			}
			bad.set(t, 0)
		})
	}
}

// eachToEach sends one message from each initiator to each queue.
func eachToEach(t *testing.T, pairs []*verbstest.Pair, size int, round byte) {
	t.Helper()
	for _, p := range pairs {
		for i := range pairs {
			must(t, p.B.Recv(uint64(i), size*i, size))
		}
	}
	for i, from := range pairs {
		for j, to := range pairs {
			from.A.Buf[size*j], from.A.Buf[size*j+1], from.A.Buf[size*j+2] = byte(i), byte(j), round
			must(t, from.A.Post(verbs.SendWR{
				WRID: uint64(j), Opcode: verbs.OpSend, RemoteSRQN: to.B.SRQ.Num(), SGList: []verbs.SGE{from.A.MR.SGE(size*j, size-i)},
			}))
		}
	}
	for j, to := range pairs {
		from := map[byte]bool{}
		for range pairs {
			wc, err := to.B.Next()
			must(t, errors.Join(err, wc.Err()))
			b := to.B.Buf[size*int(wc.WRID):]
			if int(b[0]) >= len(pairs) || int(b[1]) != j || b[2] != round || int(wc.ByteLen) != size-int(b[0]) || wc.QPNum != pairs[b[0]].B.TGT.Num() {
				t.Fatalf("queue %d: %+v with % x", j, wc, b[:3])
			}
			from[b[0]] = true
		}
		if len(from) != len(pairs) {
			t.Fatalf("queue %d heard of %v", j, from)
		}
	}
	for _, from := range pairs {
		for j := range pairs {
			_, err := from.A.Done(uint64(j), verbs.WCSend)
			must(t, err)
		}
	}
}

// TestCaptureXRC is TestCapture of XRC, whose BTH tshark knows.
func TestCaptureXRC(t *testing.T) {
	requireTshark(t)
	r := newRig(t, netns.PairOptions{MTU: 1500, Bridge: true, StaticNeighbors: true}, nil)
	bad := loseFrames(t, r.hosts)
	s := sniff(t, r.hosts.Bridge, r.hosts.Taps[0])
	o := verbstest.Options{BufferSize: 256 << 10, Timeout: 13}
	p := verbstest.XRCPair(t, r.a, r.b, o)
	must(t, p.Every(0, 1, 2, 3, 1023, 1024, 1025, 3077))
	bad.set(t, 0.03)
	must(t, p.Every(100_000))
	bad.set(t, 0)
	must(t, p.A.QP.PostSend(&verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, RemoteSRQN: ^p.B.SRQ.Num() & 0xFFFFFF}))
	expect(t, p.A, verbs.WCRemoteAccess)

	seen := judge(t, s.stop(t))
	for op := wire.SendFirst; op <= wire.FetchAdd; op++ {
		if seen.opcodes[wire.XRC|op] == 0 {
			t.Errorf("no %s in the capture", (wire.XRC | op).Info().Name)
		}
		if seen.opcodes[op] != 0 {
			t.Errorf("%s in the capture", op.Info().Name)
		}
	}
	if seen.syndromes[wire.NakRemoteAccess] == 0 {
		t.Error("no NAK for the wrong number in the capture")
	}
}
