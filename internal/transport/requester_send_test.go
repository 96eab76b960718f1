package transport

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func TestReqSegmentation(t *testing.T) {
	for _, c := range []struct {
		op   ibv.WROpcode
		n    int
		want []string
	}{
		{ibv.WRSend, 0, []string{"SEND_ONLY 0 A"}},
		{ibv.WRSend, 1, []string{"SEND_ONLY 0 1B A"}},
		{ibv.WRSend, 256, []string{"SEND_ONLY 0 256B A"}},
		{ibv.WRSend, 257, []string{"SEND_FIRST 0 256B", "SEND_LAST 1 1B A"}},
		{ibv.WRSend, 768, []string{"SEND_FIRST 0 256B", "SEND_MIDDLE 1 256B", "SEND_LAST 2 256B A"}},
		{ibv.WRSendWithImm, 5, []string{"SEND_ONLY_WITH_IMMEDIATE 0 5B A"}},
		{ibv.WRSendWithImm, 300, []string{"SEND_FIRST 0 256B", "SEND_LAST_WITH_IMMEDIATE 1 44B A"}},
		{ibv.WRSendWithInv, 0, []string{"SEND_ONLY_WITH_INVALIDATE 0 A"}},
		{ibv.WRSendWithInv, 300, []string{"SEND_FIRST 0 256B", "SEND_LAST_WITH_INVALIDATE 1 44B A"}},
		{ibv.WRRDMAWrite, 0, []string{"WRITE_ONLY 0 [+0 0] A"}},
		{ibv.WRRDMAWrite, 256, []string{"WRITE_ONLY 0 [+0 256] 256B A"}},
		{ibv.WRRDMAWrite, 700, []string{"WRITE_FIRST 0 [+0 700] 256B", "WRITE_MIDDLE 1 256B", "WRITE_LAST 2 188B A"}},
		{ibv.WRRDMAWriteWithImm, 3, []string{"WRITE_ONLY_WITH_IMMEDIATE 0 [+0 3] 3B A"}},
		{ibv.WRRDMAWriteWithImm, 258, []string{"WRITE_FIRST 0 [+0 258] 256B", "WRITE_LAST_WITH_IMMEDIATE 1 2B A"}},
		{ibv.WRRDMARead, 0, []string{"READ_REQUEST 0 [+0 0] A"}},
		{ibv.WRRDMARead, 256, []string{"READ_REQUEST 0 [+0 256] A"}},
		{ibv.WRRDMARead, 1000, []string{"READ_REQUEST 0 [+0 1000] A"}},
		{ibv.WRAtomicWrite, 8, []string{"ATOMIC_WRITE 0 [+0 8] 8B A"}},
	} {
		t.Run(fmt.Sprintf("%v %d", c.op, c.n), func(t *testing.T) {
			reqEach(t, nil, func(r *reqRig) {
				r.wr(c.op, c.n)
				r.expect(c.want...)
				r.expect()
				r.stopped(reqIdle)
			})
		})
	}
}

// Every MTU, with lengths around its multiples: payload arrives whole, the next
// message starts after the last packet.
func TestReqPayloadAtEveryMTU(t *testing.T) {
	for mtu := ibv.MTU256; mtu <= ibv.MTU4096; mtu++ {
		m := mtu.Bytes()
		for _, n := range []int{0, 1, 3, m - 1, m, m + 1, 2*m - 1, 2 * m, 2*m + 1, 5 * m} {
			c := reqDefaults()
			c.mtu = mtu
			r := newReqRig(t, c)
			a, b := n/3, n/3 // three entries, out of order in memory
			r.wr(ibv.WRRDMAWrite, n, r.sge(50000, a), r.sge(10, 0), r.sge(100, b), r.sge(90000, n-a-b))
			r.send(0)
			r.poll()
			var got []byte
			for i := range r.tx.Intents {
				got = append(got, r.payload(i)...)
			}
			want := bytes.Join([][]byte{r.local[50000 : 50000+a], r.local[100 : 100+b], r.local[90000 : 90000+n-a-b]}, nil)
			if !bytes.Equal(got, want) {
				t.Errorf("mtu %d, %d bytes: payload differs", m, n)
			}
			packets := max(1, (n+m-1)/m)
			if got := len(r.tx.Intents); got != packets+1 || int(r.tx.Intents[packets].PSN) != packets {
				t.Errorf("mtu %d, %d bytes: %d packets, the last with PSN %d", m, n, got, r.tx.Intents[got-1].PSN)
			}
		}
	}
}

func TestReqHeaderFields(t *testing.T) {
	r := newReqRig(t, reqDefaults())
	hdr := func(i int) (*Intent, []byte) { in := &r.tx.Intents[i]; return in, in.Hdr[:] }
	r.wr(ibv.WRSendWithImm, 4)
	r.wr(ibv.WRSendWithInv, 4)
	r.wr(ibv.WRAtomicCmpAndSwp, 8)
	r.wr(ibv.WRAtomicFetchAdd, 8)
	r.post(queue.SendWQE{Opcode: ibv.WRFlush, RemoteAddr: reqVA + 64, RKey: reqRKey, Length: 4096, FlushType: 3, FlushLevel: 1})
	r.write(4)
	r.poll()
	if in, h := hdr(0); string(h[in.Info.ImmDt:in.HdrLen]) != "\xA1\xB2\xC3\xD4" {
		t.Errorf("ImmDt is % x", h[in.Info.ImmDt:in.HdrLen])
	}
	if in, h := hdr(1); wire.IETHAt(h[in.Info.IETH:]).RKey() != 0xA1B2C3D4 {
		t.Errorf("IETH is % x", h[in.Info.IETH:in.HdrLen])
	}
	if in, h := hdr(2); wire.AtomicETHAt(h[in.Info.AtomicETH:]).Fields() != (wire.AtomicETHFields{VA: reqVA, RKey: reqRKey, SwapAdd: 6, Compare: 5}) {
		t.Errorf("COMPARE_SWAP has % x", h[in.Info.AtomicETH:in.HdrLen])
	}
	if in, h := hdr(3); wire.AtomicETHAt(h[in.Info.AtomicETH:]).Fields() != (wire.AtomicETHFields{VA: reqVA, RKey: reqRKey, SwapAdd: 5}) {
		t.Errorf("FETCH_ADD has % x", h[in.Info.AtomicETH:in.HdrLen])
	}
	in, h := hdr(4)
	if f := wire.FETHAt(h[in.Info.FETH:]).Fields(); f.Placement != 3 || f.Selectivity != wire.SelectRegion {
		t.Errorf("FETH is %+v", f)
	}
	if f := wire.RETHAt(h[in.Info.RETH:]).Fields(); f != (wire.RETHFields{VA: reqVA + 64, RKey: reqRKey, DMALen: 4096}) {
		t.Errorf("RETH of FLUSH is %+v", f)
	}
	in, h = hdr(5)
	if f := wire.RETHAt(h[in.Info.RETH:]).Fields(); f != (wire.RETHFields{VA: reqVA, RKey: reqRKey, DMALen: 4}) {
		t.Errorf("RETH of WRITE is %+v", f)
	}
}

// The solicited event bit is only on the packet that completes a receive.
func TestReqSolicited(t *testing.T) {
	for op, want := range map[ibv.WROpcode][]string{
		ibv.WRSend:             {"SEND_FIRST 0 256B", "SEND_LAST 1 4B A SE"},
		ibv.WRSendWithImm:      {"SEND_FIRST 0 256B", "SEND_LAST_WITH_IMMEDIATE 1 4B A SE"},
		ibv.WRSendWithInv:      {"SEND_FIRST 0 256B", "SEND_LAST_WITH_INVALIDATE 1 4B A SE"},
		ibv.WRRDMAWrite:        {"WRITE_FIRST 0 [+0 260] 256B", "WRITE_LAST 1 4B A"},
		ibv.WRRDMAWriteWithImm: {"WRITE_FIRST 0 [+0 260] 256B", "WRITE_LAST_WITH_IMMEDIATE 1 4B A SE"},
		ibv.WRRDMARead:         {"READ_REQUEST 0 [+0 260] A"},
	} {
		r := newReqRig(t, reqDefaults())
		r.post(queue.SendWQE{Opcode: op, Flags: ibv.SendSolicited, NumSGE: 1, Length: 260, RemoteAddr: reqVA}, r.sge(0, 260))
		r.expect(want...)
	}
}

func TestReqInline(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.inline = 300 }, func(r *reqRig) {
		data := reqRemote(300)
		r.post(queue.SendWQE{Opcode: ibv.WRSend, Flags: ibv.SendInline | ibv.SendSignaled, Length: 300})
		r.inlineLast(data)
		r.expect("SEND_FIRST 0 256B", "SEND_LAST 1 44B A")
		// The program may reuse the slot's bytes: a repetition sends the same.
		r.inlineLast(make([]byte, 300))
		r.nak(0)
		r.expect("SEND_FIRST 0 256B", "SEND_LAST 1 44B A")
		if got := append(r.payload(0), r.payload(1)...); !bytes.Equal(got, data) {
			r.Errorf("payload is % x...", got[:16])
		}
		r.ack(1)
		r.done("1 SUCCESS")
	})
}

// inlineLast writes data into the inline area of the element posted last.
func (r *reqRig) inlineLast(data []byte) { copy(queue.SendInline(r.sq.Slot(-1)), data) }

// A work request is read from the ring once: what a program writes there later
// changes nothing.
func TestReqReadsWorkRequestOnce(t *testing.T) {
	conformance.Rule(t, "14-11")
	r := newReqRig(t, reqDefaults())
	r.wr(ibv.WRRDMAWrite, 300)
	r.expect("WRITE_FIRST 0 [+0 300] 256B", "WRITE_LAST 1 44B A")
	clear(r.sq.Slot(-1))
	r.nak(0)
	r.expect("WRITE_FIRST 0 [+0 300] 256B", "WRITE_LAST 1 44B A")
	r.ack(1)
	r.done("1 SUCCESS")
}

// A place in the ring is free again once its work request has completed.
func TestReqRingPlaces(t *testing.T) {
	c := reqDefaults()
	c.wr = 4
	r := newReqRig(t, c)
	for range 4 {
		r.send(1)
	}
	if n := r.sq.FreeNow(); n != 0 {
		t.Fatalf("%d places free after posting all", n)
	}
	r.poll()
	r.ack(1)
	if n := r.sq.FreeNow(); n != 2 {
		t.Fatalf("%d places free after two completions, want 2", n)
	}
	r.send(1)
	r.send(1)
	r.expect("SEND_ONLY 4 1B A", "SEND_ONLY 5 1B A")
	r.ack(5)
	r.done("1 SUCCESS", "2 SUCCESS", "3 SUCCESS", "4 SUCCESS", "5 SUCCESS", "6 SUCCESS")
}

// Lengths of 2 GiB at the smallest MTU take 2^23 PSNs, half of their space.
func TestReqLargestMessage(t *testing.T) {
	c := reqDefaults()
	c.start, c.batch, c.window = 0xFFFFF0, 8, 8
	r := newReqRig(t, c)
	const big = 1 << 31
	table := r.env.Mem
	mr, err := table.RegisterIndirect(reqPD, 1<<40, big, reqNoMemory{}, 0)
	must(t, err)
	r.wr(ibv.WRRDMAWrite, big, queue.SGE{Addr: 1 << 40, Length: big, LKey: mr.LKey()})
	r.send(1)
	r.poll()
	if w := r.qp.req.oldest(); w.packets != 1<<23 {
		t.Fatalf("message takes %d packets", w.packets)
	}
	// Put the requester just before the message's end.
	q := &r.qp.req
	q.una = q.una.Add(1<<23 - 3)
	q.nxt, q.max = q.una, q.una
	r.expect("WRITE_MIDDLE 8388605 256B", "WRITE_MIDDLE 8388606 256B", "WRITE_LAST 8388607 256B A", "SEND_ONLY -8388608 1B A")
	r.ack(1<<23 - 1)
	r.done("1 SUCCESS")
	r.ack(1 << 23)
	r.done("2 SUCCESS")
}

// reqNoMemory is memory that can be named but not read.
type reqNoMemory struct{}

func (reqNoMemory) ReadAt([]byte, uint64) error  { return memory.ErrRange }
func (reqNoMemory) WriteAt([]byte, uint64) error { return memory.ErrRange }
