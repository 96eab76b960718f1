package stage_test

import (
	"testing"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
)

// credits are READs and atomics outstanding: of the program, and of the peer.
func credits(own, peers uint8) Option {
	return Attr(func(a *ibv.QPAttr) { a.MaxRDAtomic, a.MaxDestRDAtomic = own, peers })
}

func TestWindow(t *testing.T) {
	c := RC(t, "6.2-1", Window(4))
	c.Post(Write(6*MTU), Send(1), Send(1))
	c.Sends(WriteFirst(0), WriteMiddle(1), WriteMiddle(2), WriteMiddle(3).AckReq())
	c.Gets(Ack(0))
	c.Sends(WriteMiddle(4).AckReq())
	c.Gets(Ack(3))
	c.Sends(WriteLast(5).AckReq(), SendOnly(6).AckReq(), SendOnly(7).AckReq())
}

func TestReadResponsesAreInTheWindow(t *testing.T) {
	c := RC(t, "6.2-1", Window(16), credits(4, 4))
	c.Post(Read(4*MTU), Read(4*MTU), Write(7*MTU), Read(2*MTU), Send(1))
	c.Sends(append([]Packet{ReadRequest(0).AckReq(), ReadRequest(4).AckReq()}, Write(7*MTU).From(8)...)...)
	c.Gets(RespFirst(0))
	c.Sends(ReadRequest(15).AckReq())
	c.Gets(RespMiddle(1))
	c.Sends(SendOnly(17).AckReq())
}

// After a timeout the window is 16; the READ has 40 responses.
func TestLargeRequestGoesAlone(t *testing.T) {
	c := RC(t, "6.2-2", credits(1, 1))
	c.Post(Send(1), Read(40*MTU))
	c.Sends(SendOnly(0).AckReq(), ReadRequest(1).AckReq())
	c.At(Timeout).Sends(SendOnly(0).AckReq())
	c.Gets(Ack(0))
	c.Completes(Done(1))
	c.Sends(ReadRequest(1).AckReq())
}

func TestCreditsOfTheRequester(t *testing.T) {
	for _, tt := range []struct {
		name   string
		m      Msg
		answer func(k int) Packet
	}{
		{"READ", Read(10), RespOnly},
		{"COMPARE_SWAP", CompareSwap(1, 2), func(k int) Packet { return AtomicAck(k, 7) }},
		{"FETCH_ADD", FetchAdd(1), func(k int) Packet { return AtomicAck(k, 7) }},
		{"ATOMIC_WRITE", AtomicWrite(), RespOnly},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := RC(t, "6.2-3", credits(2, 4))
			c.Post(tt.m, Read(10), Write(1), tt.m, Send(1))
			c.Sends(tt.m.Packet(0), ReadRequest(1).AckReq(), WriteOnly(2).AckReq())
			c.Gets(tt.answer(0))
			c.Completes(Done(1))
			c.Sends(tt.m.Packet(3), SendOnly(4).AckReq())
		})
	}
}

func TestCreditsOfTheResponder(t *testing.T) {
	for agreed, limit := range map[uint8]int{1: 1, 2: 2, 3: 4, 4: 4, 5: 8} {
		for _, last := range []Msg{Read(1), FetchAdd(1), CompareSwap(1, 2), AtomicWrite()} {
			c := RC(t, "6.2-4", credits(1, agreed))
			var answers []Packet
			for k := range limit {
				c.Gets(Read(1).Packet(k))
				answers = append(answers, RespOnly(k).MSN(uint32(limit)))
			}
			c.Gets(last.Packet(limit))
			c.Sends(append(answers, NakInvalid(limit))...)
			c.Events(ibv.EventQPReqErr)
			c.State(ibv.QPStateErr)
		}
	}
}

func TestAnswersGiveCreditsBack(t *testing.T) {
	c := RC(t, "6.2-4", credits(1, 1))
	c.SetWord(0, 5)
	c.Gets(FetchAdd(1).Packet(0))
	c.Sends(AtomicAck(0, 5))
	c.Gets(AtomicWrite().Packet(1))
	c.Sends(RespOnly(1))
	c.Gets(Read(10).Packet(2))
	c.Sends(RespOnly(2))
}

func TestNoCreditsAtAll(t *testing.T) {
	for _, m := range []Msg{Read(10), FetchAdd(1), CompareSwap(1, 2), AtomicWrite()} {
		c := RC(t, "6.2-5", credits(0, 0))
		c.Gets(m.Packet(0))
		c.Refuses(NakInvalid(0))
		c.Untouched()
	}
}

func TestFlushNeedsNoCredit(t *testing.T) {
	c := RC(t, "6.2-6", credits(0, 0))
	c.Gets(Flush(8).Packet(0))
	c.Sends(RespOnly(0))
}

func TestFlushWithoutAPlaceIsLost(t *testing.T) {
	c := RC(t, "6.2-6", credits(0, 1))
	c.Gets(Read(10).Packet(0), Flush(8).Packet(1), Flush(8).Packet(2))
	c.Counts(transport.DropFlushOverrun, 1)
	c.Sends(RespOnly(0).MSN(2), RespOnly(1))
	c.Gets(Flush(8).Packet(2))
	c.Sends(RespOnly(2))
}
