package stage_test

import (
	"testing"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

func TestRetriesUsedUp(t *testing.T) {
	c := RC(t, "6.4-18", retries(1))
	c.Post(Send(1), Send(2))
	c.Sends(SendOnly(0).AckReq(), SendOnly(1).AckReq())
	c.At(timeouts(1)).Sends(SendOnly(0).AckReq(), SendOnly(1).AckReq())
	c.At(timeouts(2)).Fails(1, ibv.WCRetryExcErr)
}

func TestRNRRetriesUsedUp(t *testing.T) {
	c := RC(t, "6.4-19", rnrRetries(0))
	c.Post(Send(1), Send(2))
	c.Sends(SendOnly(0).AckReq(), SendOnly(1).AckReq())
	c.Gets(RNR(0, 1))
	c.Fails(1, ibv.WCRNRRetryExcErr)
}

func TestLocalFaultsGathering(t *testing.T) {
	for _, tt := range []struct {
		name string
		sge  func(c *Stage) queue.SGE
	}{
		{"no such key", func(c *Stage) queue.SGE { return queue.SGE{Addr: c.LocalVA(), Length: 8, LKey: 0xBAD00} }},
		{"another tag", func(c *Stage) queue.SGE { return queue.SGE{Addr: c.LocalVA(), Length: 8, LKey: c.LocalKey() ^ 1} }},
		{"before the region", func(c *Stage) queue.SGE { return queue.SGE{Addr: c.LocalVA() - 1, Length: 8, LKey: c.LocalKey()} }},
		{"past the region", func(c *Stage) queue.SGE {
			return queue.SGE{Addr: c.LocalVA() + AreaSize - 7, Length: 8, LKey: c.LocalKey()}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, m := range []Msg{Send(8), Write(8), AtomicWrite(), Read(8), FetchAdd(1), CompareSwap(1, 2)} {
				c := RC(t, "6.4-20")
				c.Post(m.SGEs(tt.sge(c)), Send(1))
				c.Fails(1, ibv.WCLocProtErr)
			}
		})
	}
}

// What answers write needs LOCAL_WRITE, which the remote memory here lacks.
func TestLocalRights(t *testing.T) {
	for _, m := range []Msg{Read(8), FetchAdd(1), CompareSwap(1, 2)} {
		c := RC(t, "6.4-20", RegionGrants(ibv.AccessRemoteRead))
		own := queue.SGE{Addr: c.RemoteVA(), Length: 8, LKey: c.RemoteKey()}
		c.Post(m.SGEs(own), Send(1))
		c.Fails(1, ibv.WCLocProtErr)
	}
}

func TestLocalFaultsScattering(t *testing.T) {
	for _, tt := range []struct {
		m      Msg
		answer Packet
	}{{Read(10), RespOnly(0)}, {FetchAdd(1), AtomicAck(0, 5)}} {
		c := RC(t, "6.4-20")
		c.Post(tt.m, Send(1))
		c.Sends(tt.m.Packet(0), SendOnly(1).AckReq())
		c.LoseLocal()
		c.Gets(tt.answer)
		c.Fails(1, ibv.WCLocProtErr)
		c.Untouched()
	}
}

func TestOperationsThatCannotBe(t *testing.T) {
	edit := func(m Msg, change func(*queue.SendWQE)) Msg { return m.Edit(change) }
	for _, tt := range []struct {
		name string
		m    Msg
	}{
		{"unknown opcode", edit(Send(1), func(w *queue.SendWQE) { w.Opcode = 200 })},
		{"too many entries", edit(Send(8), func(w *queue.SendWQE) { w.NumSGE = 5 })},
		{"length of another message", Send(8).SGEs(queue.SGE{Length: 7})},
		{"inline READ", Read(8).Flags(ibv.SendInline)},
		{"inline atomic", FetchAdd(1).Flags(ibv.SendInline)},
		{"FLUSH of memory here", Flush(8).SGEs(queue.SGE{Length: 8})},
		{"FLUSH of nothing", edit(Flush(8), func(w *queue.SendWQE) { w.FlushType = 0 })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := RC(t, "6.4-21")
			c.Post(tt.m, Send(1))
			c.Fails(1, ibv.WCLocQPOpErr)
		})
	}
}

func TestReadsNeedACredit(t *testing.T) {
	for _, m := range []Msg{Read(10), FetchAdd(1), CompareSwap(1, 2), AtomicWrite()} {
		c := RC(t, "6.4-21", credits(0, 0))
		c.Post(m, Send(1))
		c.Fails(1, ibv.WCLocQPOpErr)
	}
}

func TestOperationsOfOtherServices(t *testing.T) {
	rcOnly := []Msg{Read(10), FetchAdd(1), CompareSwap(1, 2), AtomicWrite(), Flush(8)}
	for typ, lacks := range map[ibv.QPType][]Msg{
		ibv.QPTypeUC: append(rcOnly, SendInv(10)),
		ibv.QPTypeUD: append(rcOnly, SendInv(10), Write(10), WriteImm(10)),
	} {
		for _, m := range lacks {
			c := On(t, typ, "6.4-21")
			c.Post(m, Send(1))
			c.Quiet()
			c.Completes(Failed(1, ibv.WCLocQPOpErr), Flushed(2))
			c.State(ibv.QPStateSQE)
		}
	}
}

func TestMessagesThatAreTooLong(t *testing.T) {
	const most = 1 << 31
	for _, m := range []Msg{Send(most + 1), Write(most + 1), Read(most + 1)} {
		c := RC(t, "6.4-22")
		c.Post(m.SGEs(queue.SGE{Length: most}, queue.SGE{Length: 1}), Send(1))
		c.Fails(1, ibv.WCLocLenErr)
	}
	c := RC(t, "6.4-22")
	c.Post(Send(most).SGEs(queue.SGE{Length: most}), Send(1)) // not too long, but not there
	c.Fails(1, ibv.WCLocProtErr)
	c = RC(t, "6.4-22")
	c.Post(Flush(most+1), Send(1))
	c.Fails(1, ibv.WCLocLenErr)
	c = UD(t, "6.4-22")
	c.Post(Send(MTU+1), Send(1))
	c.Quiet()
	c.Completes(Failed(1, ibv.WCLocLenErr), Flushed(2))
}

func TestWhatIsQueuedBehindAFailure(t *testing.T) {
	c := RC(t, "6.4-24")
	c.Post(Send(1), Read(10), Send(2).Unsignaled(), FetchAdd(1))
	c.Sends(SendOnly(0).AckReq(), ReadRequest(1).AckReq(), SendOnly(2).AckReq(), FetchAdd(1).Packet(3))
	c.Gets(NakAccess(0))
	c.Fails(1, ibv.WCRemAccessErr) // and three flushed
	c.Post(Write(10))
	c.Quiet()
	c.Completes(Flushed(5))
}
