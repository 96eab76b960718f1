package integration_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/test/netns/impair"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestImpairedOneWay sends messages over links that drop, duplicate and corrupt
// frames, by services that do not repeat them. What is delivered is whole, what
// was sent, and in order; most is delivered.
func TestImpairedOneWay(t *testing.T) {
	for _, tt := range []struct {
		typ     verbs.QPType
		op      verbs.Opcode
		packets int
	}{
		{verbs.UC, verbs.OpSend, 1},
		{verbs.UC, verbs.OpSendWithImm, 4},
		{verbs.UC, verbs.OpRDMAWriteWithImm, 4},
		{verbs.UD, verbs.OpSendWithImm, 1},
	} {
		for _, rate := range rates {
			name := fmt.Sprintf("%v, %v of %d packets, rate %v", tt.typ, tt.op, tt.packets, rate)
			t.Run(name, func(t *testing.T) {
				r := newRig(t, netns.PairOptions{MTU: 1500, Bridge: true, StaticNeighbors: true}, nil)
				d := newDeliveries(t, r, tt.typ, tt.op, tt.packets)
				link := impair.ForTest(t, r.hosts, 1)
				must(t, link.Set(impair.FromA, impair.Rates{Drop: rate, Duplicate: rate, Corrupt: rate}))
				// Each packet of a message must arrive whole, once if there are several.
				share := (1 - rate) * (1 - rate)
				if tt.packets > 1 {
					share *= 1 - rate
				}
				share = math.Pow(share, float64(tt.packets))
				// A receiver that is kept from running loses what it has no receives for.
				undisturbed(t, name, soak(1, 20), func() string {
					d.sent, d.whole, d.again = 0, 0, 0
					for range 20 {
						d.round()
					}
					if want := share * float64(d.sent); float64(d.whole) < 0.8*want {
						return fmt.Sprintf("%d of %d messages were delivered; about %.0f are to be expected", d.whole, d.sent, want)
					}
					return ""
				})
				t.Logf("%d of %d messages were delivered, %d twice; %+v", d.whole, d.sent, d.again, impairments(t, link, impair.FromA))
			})
		}
	}
}

// deliveries sends numbered messages and checks those that are delivered.
type deliveries struct {
	*testing.T
	p            *verbstest.Pair
	op           verbs.Opcode
	size         int
	areas        int // of B's memory: message n is written to area n modulo areas
	next, latest int // number of the next message, and of the latest that was delivered
	sent, whole  int
	again        int // delivered for the second time, as frames are duplicated
}

const (
	perRound = 16 // messages
	slots    = 64 // receives that are posted, for twice as many as are sent and more
)

func newDeliveries(t *testing.T, r *rig, typ verbs.QPType, op verbs.Opcode, packets int) *deliveries {
	t.Helper()
	o := verbstest.Options{BufferSize: 1 << 20, Depth: slots, Inline: 0}
	d := &deliveries{T: t, op: op, latest: -1}
	if typ == verbs.UD {
		d.p = verbstest.UDPair(t, r.a, r.b, o)
	} else {
		d.p = verbstest.UCPair(t, r.a, r.b, o)
	}
	d.size = packets * d.p.MTU.Bytes()
	d.areas = len(d.p.B.Buf) / d.size
	for i := range slots {
		d.post(i)
	}
	return d
}

// slot is where receive i goes, header of datagrams included.
func (d *deliveries) slot(i int) int { return i * (d.size + verbs.GRHLen) }

func (d *deliveries) post(i int) {
	d.Helper()
	n := d.size + verbs.GRHLen
	if d.op == verbs.OpRDMAWriteWithImm {
		n = 0
	}
	must(d.T, d.p.B.Recv(uint64(i), d.slot(i), n))
}

// round sends some messages and checks those that arrive, until none has for a
// while.
func (d *deliveries) round() {
	d.Helper()
	for i := range perRound {
		off := i * d.size
		verbstest.Fill(d.p.A.Buf[off:off+d.size], uint64(d.next))
		binary.BigEndian.PutUint32(d.p.A.Buf[off:], uint32(d.next))
		wr := verbs.SendWR{
			WRID: uint64(i), Opcode: d.op, SGList: []verbs.SGE{d.p.A.MR.SGE(off, d.size)}, Imm: uint32(d.next),
			RemoteAddr: d.p.B.MR.Addr() + uint64(d.next%d.areas*d.size), RKey: d.p.B.MR.RKey(),
		}
		d.p.Address(&wr)
		must(d.T, d.p.A.Post(wr))
		d.next++
		d.sent++
	}
	var wcs [slots]verbs.WC
	for left := perRound; left > 0; left -= d.p.A.CQ.Poll(wcs[:]) {
	}
	seen := 0
	for quiet := time.Now().Add(10 * time.Millisecond); seen < perRound && time.Now().Before(quiet); {
		n := d.p.B.CQ.Poll(wcs[:])
		if n != 0 {
			quiet = time.Now().Add(10 * time.Millisecond)
		}
		for i := range wcs[:n] {
			d.check(&wcs[i])
		}
		seen += n
	}
}

// check compares one message that was delivered with what was sent under its
// number.
func (d *deliveries) check(wc *verbs.WC) {
	d.Helper()
	must(d.T, wc.Err())
	slot := int(wc.WRID)
	from, n := d.slot(slot), d.size
	if d.p.A.QP.Type() == verbs.UD {
		from += verbs.GRHLen
		n += verbs.GRHLen
	}
	number := int(wc.Imm)
	switch d.op {
	case verbs.OpRDMAWriteWithImm:
		from = number % d.areas * d.size
	case verbs.OpSend:
		number = int(binary.BigEndian.Uint32(d.p.B.Buf[from:]))
	default:
	}
	want := make([]byte, d.size)
	verbstest.Fill(want, uint64(number))
	binary.BigEndian.PutUint32(want, uint32(number))
	if got := d.p.B.Buf[from : from+d.size]; int(wc.ByteLen) != n || !bytes.Equal(got, want) {
		d.Errorf("message %d of %d bytes was delivered in part, or wrong", number, wc.ByteLen)
	}
	switch {
	case number == d.latest:
		d.again++
	case number < d.latest || number >= d.next:
		d.Errorf("message %d was delivered after %d", number, d.latest)
	default:
		d.whole++
	}
	d.latest = max(d.latest, number)
	d.post(slot)
}
