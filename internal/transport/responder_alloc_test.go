package transport

import (
	"reflect"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// respDrain empties the lists that a driver empties after each batch.
func (r *respRig) respDrain() {
	r.env.Events, r.env.Released, r.env.Woken = r.env.Events[:0], r.env.Released[:0], r.env.Woken[:0]
	if n, ok := r.cq.Avail(); ok {
		r.cq.Release(n)
	}
}

func TestResponderDoesNotAllocate(t *testing.T) {
	full := make([]byte, respMTU)
	tests := []struct {
		name   string
		pkts   func(r *respRig) []respReq // PSNs count from 0
		keep   int
		recv   bool
		typ    ibv.QPType // RC unless set
		shared bool       // the receive queue is
		num    uint32     // of the queue that the packets are for, with XRC
	}{
		{name: "SEND", recv: true, pkts: func(*respRig) []respReq { return respSend(0, make([]byte, 3*respMTU)) }},
		{name: "WRITE", pkts: func(r *respRig) []respReq { return r.write(0, 0, make([]byte, 3*respMTU)) }},
		{name: "READ", pkts: func(r *respRig) []respReq { return []respReq{r.read(0, 0, 3*respMTU)} }},
		{name: "FETCH ADD", pkts: func(r *respRig) []respReq {
			return []respReq{respPkt(wire.FetchAdd, 0).atomic(r.at(0), r.mr.RKey(), 1, 0)}
		}},
		{name: "gap, not kept", pkts: func(r *respRig) []respReq { return r.write(5, 0, []byte{1}) }},
		{name: "gap, kept", keep: 8, pkts: func(r *respRig) []respReq {
			w := r.write(0, 0, make([]byte, 3*respMTU))
			return []respReq{w[1], w[2], w[0]}
		}},
		{name: "duplicates", pkts: func(r *respRig) []respReq {
			return []respReq{r.write(0, 0, full)[0], r.write(0, 0, full)[0], r.read(1, 0, 4), r.read(1, 0, 4)}
		}},
		{name: "UC SEND", typ: ibv.QPTypeUC, recv: true, pkts: func(*respRig) []respReq { return respUC(respSend(0, make([]byte, 3*respMTU))) }},
		{name: "UC WRITE", typ: ibv.QPTypeUC, pkts: func(r *respRig) []respReq { return respUC(r.write(0, 0, make([]byte, 3*respMTU))) }},
		{name: "UC, abandoned", typ: ibv.QPTypeUC, recv: true, pkts: func(*respRig) []respReq {
			return append(respUC(respSend(0, make([]byte, 3*respMTU)))[:2], respUC(respSend(9, full))...)
		}},
		{name: "UD, IPv4", typ: ibv.QPTypeUD, recv: true, pkts: func(*respRig) []respReq { return []respReq{datagram(0, full)} }},
		{name: "UD, IPv6", typ: ibv.QPTypeUD, recv: true, pkts: func(*respRig) []respReq { return []respReq{datagram(0, full).under(udIPv6)} }},
		{name: "UD, dropped", typ: ibv.QPTypeUD, pkts: func(*respRig) []respReq { return []respReq{datagram(0, full)} }},
		{name: "SEND, shared queue", shared: true, recv: true, pkts: func(*respRig) []respReq { return respSend(0, respFill(1, 700)) }},
		{name: "UD, shared queue", shared: true, typ: ibv.QPTypeUD, recv: true, pkts: func(*respRig) []respReq { return []respReq{datagram(0, full)} }},
		{name: "XRC SEND", num: xrcNum, recv: true, pkts: func(*respRig) []respReq { return respSend(0, respFill(1, 700)) }},
		{name: "XRC READ", num: xrcNum, pkts: func(r *respRig) []respReq { return []respReq{r.read(0, 0, 3*respMTU)} }},
		{name: "XRC, changing queues", num: xrcNum, pkts: func(r *respRig) []respReq {
			other := r.xrcQueue(5, respPD)
			ours := toSRQ(xrcNum, r.write(0, 0, full)...)
			return append(ours, toSRQ(5, other.write(1, 0, full)...)...)
		}},
		{name: "not ready", pkts: func(*respRig) []respReq { return respSend(0, nil) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.typ == 0 {
				tt.typ = ibv.QPTypeRC
			}
			opts := []respOption{respAt(0), respOn(tt.typ)}
			if tt.shared {
				opts = append(opts, respShared)
			}
			if tt.num != 0 {
				opts = append(opts, respXRC)
			}
			r := newRespRig(t, opts...)
			r.env.KeepBudget = tt.keep
			var pkts []*wire.Packet
			for _, q := range tt.pkts(r) {
				if tt.num != 0 && q.op.Transport() != wire.XRC {
					q = toSRQ(tt.num, q)[0]
				}
				pkts = append(pkts, q.packet())
			}
			base := make([]psn.PSN, len(pkts))
			for i, p := range pkts {
				base[i] = psnOf(p)
			}
			round := func() {
				if tt.recv {
					slot := r.rq.Slot(0)
					queue.PutRecv(slot, &queue.RecvWQE{WRID: 1, NumSGE: 1, Length: 4096})
					queue.PutRecvSGE(slot, 0, queue.SGE{Addr: r.at(0), Length: 4096, LKey: r.mr.LKey()})
					r.rq.Publish(1)
				}
				e := r.q.resp.st.ePSN
				for i, p := range pkts {
					wire.BTHAt(p.BTH).SetPSN(e.Add(int(base[i])))
					r.q.HandlePacket(r.now, p)
				}
				r.tx.Reset(64)
				for r.q.Poll(r.now, r.tx) {
					r.tx.Reset(64)
				}
				r.respDrain()
			}
			round() // the first gap allocates the places of kept packets
			if n := testing.AllocsPerRun(100, round); n != 0 {
				t.Errorf("%v allocations for each round", n)
			}
			if n := r.env.Counters[RDMARecvs]; (n != 0) != tt.recv {
				t.Errorf("%d messages received", n)
			}
		})
	}
}

// Records that another executor may share have a fixed layout and no pointers.
func TestResponderRecordsAreFlat(t *testing.T) {
	tests := []struct {
		record any
		size   uintptr
	}{
		{responderState{}, 64},
		{savedResult{}, 48},
	}
	for _, tt := range tests {
		typ := reflect.TypeOf(tt.record)
		if typ.Size() != tt.size {
			t.Errorf("%v has %d bytes, want %d", typ, typ.Size(), tt.size)
		}
		end := uintptr(0)
		for i := range typ.NumField() {
			f := typ.Field(i)
			if k := f.Type.Kind(); k == reflect.Int || k == reflect.Uint || k > reflect.Uintptr && k != reflect.Array {
				t.Errorf("%v.%s is a %v", typ, f.Name, k)
			}
			if f.Offset != end {
				t.Errorf("%v.%s: hidden padding of %d bytes before it", typ, f.Name, f.Offset-end)
			}
			end = f.Offset + f.Type.Size()
		}
		if end != tt.size {
			t.Errorf("%v: hidden padding of %d bytes at its end", typ, tt.size-end)
		}
	}
}

func BenchmarkResponderWrite(b *testing.B) {
	for _, n := range []int{8, respMTU} {
		b.Run(map[int]string{8: "8B", respMTU: "256B"}[n], func(b *testing.B) {
			r := newRespRig(&testing.T{}, respAt(0))
			p := r.write(0, 0, make([]byte, n))[0].packet()
			h := wire.BTHAt(p.BTH)
			b.ReportAllocs()
			for b.Loop() {
				h.SetPSN(r.q.resp.st.ePSN)
				r.q.HandlePacket(r.now, p)
				r.tx.Reset(64)
				r.q.Poll(r.now, r.tx)
			}
		})
	}
}
