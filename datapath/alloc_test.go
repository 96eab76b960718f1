package datapath

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// pingPong drives both ends in one goroutine: a request and its completion.
type pingPong struct {
	p   *verbstest.Pair
	r   *rig
	wr  verbs.SendWR
	rr  verbs.RecvWR
	srq *verbs.SRQ // where receives are posted; nil: to the queue pair
	wcs [4]verbs.WC
}

// sharedQueue is a shared receive queue of the receiving device.
func sharedQueue(r *rig) *verbs.SRQ {
	pd, err := r.cb.AllocPD()
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 4})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (x *pingPong) recv() error {
	if x.srq != nil {
		return x.srq.PostRecv(&x.rr)
	}
	return x.p.B.QP.PostRecv(&x.rr)
}

func newPingPong(r *rig, typ verbs.QPType, op verbs.Opcode, n int, srq *verbs.SRQ) *pingPong {
	pairOf := verbstest.RCPair
	switch typ {
	case verbs.UC:
		pairOf = verbstest.UCPair
	case verbs.UD:
		pairOf = verbstest.UDPair
	case verbs.XRCSend:
		pairOf = verbstest.XRCPair
	default: // RC
	}
	p := pairOf(r.t, r.ca, r.cb, verbstest.Options{Timeout: slow, SRQ: [2]*verbs.SRQ{nil, srq}})
	if typ == verbs.XRCSend {
		srq = p.B.SRQ
	}
	x := &pingPong{
		p: p, r: r, srq: srq,
		wr: verbs.SendWR{
			WRID: 1, Opcode: op, Flags: verbs.SendSignaled, SGList: []verbs.SGE{p.A.MR.SGE(0, n)},
			RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey(),
		},
		rr: verbs.RecvWR{WRID: 2, SGList: []verbs.SGE{p.B.MR.SGE(0, verbs.GRHLen+n)}},
	}
	p.Address(&x.wr)
	return x
}

// round posts the request and polls both ends until it is complete, at both if
// the other has a completion too. It reports false when that does not come about.
func (x *pingPong) round() bool {
	left := 1
	if x.wr.Opcode == verbs.OpSend {
		left = 2
		if x.recv() != nil {
			return false
		}
	}
	if x.p.A.QP.PostSend(&x.wr) != nil {
		return false
	}
	for range 1_000_000 {
		for _, cq := range [2]*verbs.CQ{x.p.B.CQ, x.p.A.CQ} {
			if n := cq.Poll(x.wcs[:]); n != 0 {
				if left -= n; x.wcs[0].Status != verbs.WCSuccess {
					return false
				}
			}
		}
		if left == 0 {
			return true
		}
	}
	return false
}

// TestDatapathDoesNotAllocate: posting, transmitting, receiving, acknowledging,
// completing and polling take no memory of the heap.
func TestDatapathDoesNotAllocate(t *testing.T) {
	for _, tt := range []struct {
		name string
		rig  rigOptions
		typ  verbs.QPType
		op   verbs.Opcode
		n    int
		srq  bool
	}{
		{"WRITE of 64 bytes", rigOptions{}, verbs.RC, verbs.OpRDMAWrite, 64, false},
		{"WRITE of 20 packets", rigOptions{}, verbs.RC, verbs.OpRDMAWrite, 20 * 4096, false},
		{"READ of 20 packets", rigOptions{}, verbs.RC, verbs.OpRDMARead, 20 * 4096, false},
		{"SEND", rigOptions{}, verbs.RC, verbs.OpSend, 5000, false},
		{"SEND of a UC", rigOptions{}, verbs.UC, verbs.OpSend, 5000, false},
		{"WRITE of a UC", rigOptions{}, verbs.UC, verbs.OpRDMAWrite, 10_000, false},
		{"datagram", rigOptions{}, verbs.UD, verbs.OpSend, 4096, false},
		{"WRITE through another worker", rigOptions{queues: 2, crossed: true}, verbs.RC, verbs.OpRDMAWrite, 10_000, false},
		{"SEND to a shared queue", rigOptions{}, verbs.RC, verbs.OpSend, 5000, true},
		{"SEND of XRC", rigOptions{}, verbs.XRCSend, verbs.OpSend, 5000, false},
		{"READ of XRC", rigOptions{}, verbs.XRCSend, verbs.OpRDMARead, 10_000, false},
		{"datagram to a shared queue", rigOptions{}, verbs.UD, verbs.OpSend, 4096, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if raceEnabled {
				t.Skip("the race detector allocates")
			}
			r := newRig(t, tt.rig)
			var srq *verbs.SRQ
			if tt.srq {
				srq = sharedQueue(r)
			}
			x := newPingPong(r, tt.typ, tt.op, tt.n, srq)
			ok := true
			allocs := testing.AllocsPerRun(2000, func() { ok = ok && x.round() })
			if !ok {
				t.Fatal("a request did not complete")
			}
			if allocs != 0 {
				t.Errorf("%v allocations in a round", allocs)
			}
		})
	}
}

func BenchmarkMemoryWrite64(b *testing.B)    { benchmarkMemory(b, verbs.RC, verbs.OpRDMAWrite, 64) }
func BenchmarkMemoryWrite4K(b *testing.B)    { benchmarkMemory(b, verbs.RC, verbs.OpRDMAWrite, 4096) }
func BenchmarkMemoryRead4K(b *testing.B)     { benchmarkMemory(b, verbs.RC, verbs.OpRDMARead, 4096) }
func BenchmarkMemoryDatagram64(b *testing.B) { benchmarkMemory(b, verbs.UD, verbs.OpSend, 64) }

// benchmarkMemory measures all of a request and its acknowledgement but the
// kernel, at both ends.
func benchmarkMemory(b *testing.B, typ verbs.QPType, op verbs.Opcode, n int) {
	x := newPingPong(newRig(b, rigOptions{}), typ, op, n, nil)
	b.SetBytes(int64(n))
	b.ReportAllocs()
	for b.Loop() {
		if !x.round() {
			b.Fatal("a request did not complete")
		}
	}
}
