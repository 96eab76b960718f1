package stage_test

import (
	"testing"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// refusal is a reliable connection's answer to a packet at the expected PSN that
// is wrong, and to what was wrong with it.
type refusal struct {
	name, rule string
	opts       []Option
	receive    int                     // bytes of a receive that is posted, 0 for none
	got        func(c *Stage) []Packet // the last one is refused
	nak        func(k int) Packet      // the NAK
	status     ibv.WCStatus            // of the receive
}

func (r *refusal) play(t *testing.T) {
	c := RC(t, r.rule, r.opts...)
	if r.receive > 0 {
		c.Recv(r.receive)
	}
	packets := r.got(c)
	c.Gets(packets...)
	if r.receive > 0 {
		c.Receives(Failed(101, r.status))
	}
	c.Refuses(r.nak(len(packets) - 1))
	if len(packets) == 1 {
		c.Rule("6.6-23")
		c.Untouched()
	}
	c.Rule("6.6-20")
	c.Gets(WriteOnly(len(packets)).AckReq())
	c.Idle()
	c.Counts(transport.DropState, 1)
}

func playAll(t *testing.T, all []refusal) {
	for i := range all {
		t.Run(all[i].rule+" "+all[i].name, func(t *testing.T) { all[i].play(t) })
	}
}

// just are packets that do not depend on the stage.
func just(p ...Packet) func(*Stage) []Packet { return func(*Stage) []Packet { return p } }

// grantsBut are all rights of a queue pair but one.
func grantsBut(a ibv.Access) []Option {
	return []Option{Grants((ibv.AccessLocalWrite | ibv.AccessRemoteWrite | ibv.AccessRemoteRead | ibv.AccessRemoteAtomic | ibv.AccessFlushGlobal) &^ a)}
}

// flushTo is a FLUSH for any placement.
func flushTo(p ibv.FlushPlacement) Msg {
	return Flush(8).Edit(func(w *queue.SendWQE) { w.FlushType = uint16(p) })
}

func TestSequenceIsChecked(t *testing.T) {
	playAll(t, []refusal{
		{"LAST first", "6.6-5", nil, 0, just(WriteLast(0)), NakInvalid, 0},
		{"MIDDLE first", "6.6-5", nil, Short, just(SendMiddle(0)), NakInvalid, ibv.WCWRFlushErr},
		{"SEND inside WRITE", "6.6-5", nil, 0, just(WriteFirst(0), SendOnly(1)), NakInvalid, 0},
	})
}

func TestAccessFlagsAreChecked(t *testing.T) {
	var all []refusal
	add := func(rule string, lacks ibv.Access, packets ...Packet) {
		for _, p := range packets {
			all = append(all, refusal{p.String(), rule, grantsBut(lacks), 0, just(p), NakInvalid, 0})
		}
	}
	add("6.6-6", ibv.AccessRemoteWrite, WriteOnly(0), WriteFirst(0), WriteOnlyImm(0), Write(0).Packet(0), AtomicWrite().Packet(0))
	add("6.6-7", ibv.AccessRemoteRead, Read(10).Packet(0), Read(0).Packet(0))
	add("6.6-8", ibv.AccessRemoteAtomic, FetchAdd(1).Packet(0), CompareSwap(1, 2).Packet(0))
	add("6.6-9", ibv.AccessFlushGlobal, Flush(8).Packet(0), flushTo(ibv.FlushGlobal|ibv.FlushPersistent).Packet(0))
	add("6.6-9", 0, flushTo(ibv.FlushPersistent).Packet(0), flushTo(ibv.FlushGlobal|ibv.FlushPersistent).Packet(0))
	playAll(t, all)
}

func TestAccessFlagsOfOthersDoNotMatter(t *testing.T) {
	for rule, m := range map[string]struct {
		needs ibv.Access
		m     Msg
	}{
		"6.6-6": {ibv.AccessRemoteWrite, Write(10)}, "6.6-7": {ibv.AccessRemoteRead, Read(10)},
		"6.6-8": {ibv.AccessRemoteAtomic, FetchAdd(1)}, "6.6-9": {ibv.AccessFlushGlobal, Flush(10)},
	} {
		c := RC(t, rule, Grants(m.needs))
		c.Gets(m.m.Packet(0))
		c.State(ibv.QPStateRTS)
		c.Discard()
	}
}

func TestNoReceive(t *testing.T) {
	for _, tt := range [][]Packet{
		{SendOnly(0)}, {SendFirst(0)}, {SendOnlyImm(0)}, {SendOnlyInv(0)}, {WriteOnlyImm(0)}, {WriteFirst(0), WriteLastImm(1)},
	} {
		c := RC(t, "6.6-10")
		c.Gets(tt...)
		c.Sends(RNR(len(tt)-1, 12))
		c.State(ibv.QPStateRTS)
		c.Recv(MTU)
		c.Gets(tt[len(tt)-1].AckReq())
		c.Counts(transport.SendRNRErr, 1)
		c.Discard()
	}
}

func TestReceivesThatCannotBe(t *testing.T) {
	for _, w := range []queue.RecvWQE{{NumSGE: 8}, {NumSGE: 0xFFFF}, {Length: 1}, {NumSGE: 1, Length: 7}} {
		for _, p := range []Packet{SendOnly(0), SendFirst(0), WriteOnlyImm(0)} {
			c := RC(t, "6.6-11")
			c.RecvRaw(w)
			c.Recv(10)
			c.Gets(p)
			c.Receives(Failed(101, ibv.WCLocQPOpErr), Flushed(102))
			c.Refuses(NakOp(0))
			c.Untouched()
		}
	}
}

func TestReceivesWithoutMemory(t *testing.T) {
	for _, tt := range []struct {
		name string
		sge  func(c *Stage) queue.SGE
	}{
		{"no such key", func(c *Stage) queue.SGE { return queue.SGE{Addr: c.LocalVA(), Length: MTU, LKey: 0xBAD00} }},
		{"past the region", func(c *Stage) queue.SGE {
			return queue.SGE{Addr: c.LocalVA() + AreaSize - MTU + 1, Length: MTU, LKey: c.LocalKey()}
		}},
		{"no LOCAL_WRITE", func(c *Stage) queue.SGE { return queue.SGE{Addr: c.RemoteVA(), Length: MTU, LKey: c.RemoteKey()} }},
	} {
		for _, p := range []Packet{SendOnly(0), SendFirst(0), SendOnly(0).Len(0)} {
			t.Run(tt.name+", "+p.String(), func(t *testing.T) {
				c := RC(t, "6.6-12", RegionGrants(ibv.AccessRemoteRead))
				c.RecvSGEs(tt.sge(c))
				c.Recv(10)
				c.Gets(p)
				c.Receives(Failed(101, ibv.WCLocProtErr), Flushed(102))
				c.Refuses(NakOp(0))
				c.Untouched()
			})
		}
	}
}

func TestPacketLengthsAreChecked(t *testing.T) {
	const large = 3 * MTU
	var all []refusal
	add := func(receive int, status ibv.WCStatus, name string, packets ...Packet) {
		all = append(all, refusal{name, "6.6-13", nil, receive, just(packets...), NakInvalid, status})
	}
	add(large, ibv.WCRemInvReqErr, "SEND_FIRST short", SendFirst(0).Len(MTU-4))
	add(large, ibv.WCRemInvReqErr, "SEND_FIRST long", SendFirst(0).Len(MTU+4))
	add(large, ibv.WCRemInvReqErr, "SEND_FIRST empty", SendFirst(0).Len(0))
	add(large, ibv.WCRemInvReqErr, "SEND_MIDDLE short", SendFirst(0), SendMiddle(1).Len(MTU-1))
	add(large, ibv.WCRemInvReqErr, "SEND_LAST empty", SendFirst(0), SendLast(1).Len(0))
	add(large, ibv.WCRemInvReqErr, "SEND_LAST long", SendFirst(0), SendLast(1).Len(MTU+1))
	add(large, ibv.WCRemInvReqErr, "SEND_ONLY long", SendOnly(0).Len(MTU+1))
	add(0, 0, "WRITE_FIRST short", WriteFirst(0).Len(MTU-4).Range(0, large))
	add(0, 0, "WRITE_MIDDLE long", WriteFirst(0).Range(0, 2*large), WriteMiddle(1).Len(MTU+4))
	add(0, 0, "WRITE_LAST empty", WriteFirst(0).Range(0, 2*MTU), WriteLast(1).Len(0))
	add(0, 0, "WRITE_LAST long", WriteFirst(0).Range(0, 2*MTU+4), WriteLast(1).Len(MTU+4))
	add(0, 0, "WRITE_ONLY long", WriteOnly(0).Len(MTU+1))
	add(0, 0, "ATOMIC_WRITE short", AtomicWrite().Packet(0).Len(4))
	playAll(t, all)
}

func TestMessageLengthsAreChecked(t *testing.T) {
	playAll(t, []refusal{
		{"WRITE_FIRST", "6.6-14", nil, 0, just(WriteFirst(0).Range(0, 1<<31+1)), NakInvalid, 0},
		{"WRITE_ONLY", "6.6-14", nil, 0, just(WriteOnly(0).Range(0, 1<<31+1)), NakInvalid, 0},
		{"READ", "6.6-14", nil, 0, just(Read(1<<31 + 1).Packet(0)), NakInvalid, 0},
		{"as long as may be, but not there", "6.6-14", nil, 0, just(WriteFirst(0).Range(0, 1<<31)), NakAccess, 0},
		{"WRITE ends early", "6.6-16", nil, 0, just(WriteOnly(0).Len(99).Range(0, 100)), NakInvalid, 0},
		{"WRITE ends late", "6.6-16", nil, 0, just(WriteOnly(0).Len(100).Range(0, 99)), NakInvalid, 0},
		{"WRITE of nothing", "6.6-16", nil, 0, just(WriteOnly(0).Len(1).Range(0, 0)), NakInvalid, 0},
		{"no rest for LAST", "6.6-16", nil, 0, just(WriteFirst(0).Range(0, MTU)), NakInvalid, 0},
		{"MIDDLE is all of the rest", "6.6-16", nil, 0, just(WriteFirst(0).Range(0, 2*MTU), WriteMiddle(1)), NakInvalid, 0},
		{"LAST short", "6.6-16", nil, 0, just(WriteFirst(0).Range(0, MTU+9), WriteLast(1).Len(8)), NakInvalid, 0},
		{"LAST long", "6.6-16", nil, 0, just(WriteFirst(0).Range(0, MTU+9), WriteLast(1).Len(10)), NakInvalid, 0},
		{"SEND_ONLY", "6.6-18", nil, 10, just(SendOnly(0).Len(11)), NakInvalid, ibv.WCLocLenErr},
		{"SEND_FIRST", "6.6-18", nil, MTU - 1, just(SendFirst(0)), NakInvalid, ibv.WCLocLenErr},
		{"SEND_LAST", "6.6-18", nil, MTU + 10, just(SendFirst(0), SendLast(1).Len(11)), NakInvalid, ibv.WCLocLenErr},
	})
}

func TestKeysAndRangesAreChecked(t *testing.T) {
	all := []refusal{
		{"wrong PD", "6.6-15", nil, 0, func(c *Stage) []Packet {
			mr, err := c.Env.Mem.Register(memory.PD(9), 0x5000_0000, make([]byte, MTU), ibv.AccessRemoteRead)
			if err != nil {
				c.Fatal(err)
			}
			return []Packet{Read(8).At(mr.Start(), mr.RKey()).Packet(0)}
		}, NakAccess, 0},
		{"WRITE_ONLY_IMM", "6.6-21", nil, 10, just(WriteOnlyImm(0).Key(1)), NakAccess, ibv.WCRemAccessErr},
		{"SEND inside SEND", "6.6-21", nil, 2 * MTU, just(SendFirst(0), SendFirst(1)), NakInvalid, ibv.WCRemInvReqErr},
		{"not begun", "6.6-21", nil, 10, just(WriteOnly(0).Key(1)), NakAccess, ibv.WCWRFlushErr},
		{"NAK 0x61", "6.6-22", nil, 0, just(WriteLast(0)), NakInvalid, 0},
		{"NAK 0x62", "6.6-22", nil, 0, just(Read(10).Packet(0).Key(1)), NakAccess, 0},
	}
	for _, m := range []Msg{Write(8), Write(2 * MTU), Read(8), Read(3 * MTU), FetchAdd(1), CompareSwap(1, 2), AtomicWrite(), Flush(8)} {
		first := m.Packet(0)
		add := func(name string, opts []Option, change func(*Stage, Packet) Packet) {
			all = append(all, refusal{first.String() + ", " + name, "6.6-15", opts, 0,
				func(c *Stage) []Packet { return []Packet{change(c, first)} }, NakAccess, 0})
		}
		add("no such key", nil, func(_ *Stage, p Packet) Packet { return p.Key(0xBAD00) })
		add("another tag", nil, func(c *Stage, p Packet) Packet { return p.Key(c.RemoteKey() ^ 0x80) })
		add("before the region", nil, func(c *Stage, p Packet) Packet { return p.VA(c.RemoteVA() - 8) })
		add("past the region", nil, func(c *Stage, p Packet) Packet { return p.VA(c.RemoteVA() + AreaSize - 7) })
		add("over the end of addresses", nil, func(_ *Stage, p Packet) Packet { return p.VA(1<<64 - 4) })
		add("no rights", []Option{RegionGrants(ibv.AccessLocalWrite)}, func(_ *Stage, p Packet) Packet { return p })
	}
	playAll(t, all)
}

func TestWordsAreAligned(t *testing.T) {
	var all []refusal
	for _, m := range []Msg{FetchAdd(1), CompareSwap(1, 2), AtomicWrite()} {
		for _, off := range []int{1, 4, 7} {
			all = append(all, refusal{m.Packet(0).String(), "6.6-19", nil, 0, just(m.Remote(off).Packet(0)), NakInvalid, 0})
		}
	}
	playAll(t, all)
}

// Each of these packets is wrong in two ways; the check that comes first decides.
func TestFirstCheckDecides(t *testing.T) {
	playAll(t, []refusal{
		{"before 6.6-10", "6.6-5", nil, 0, just(WriteFirst(0), SendOnly(1)), NakInvalid, 0},
		{"before 6.6-15", "6.6-6", grantsBut(ibv.AccessRemoteWrite), 0, just(WriteOnly(0).Key(1)), NakInvalid, 0},
		{"before 6.6-10", "6.6-6", grantsBut(ibv.AccessRemoteWrite), 0, just(WriteOnlyImm(0)), NakInvalid, 0},
		{"before 6.6-18", "6.6-13", nil, 10, just(SendOnly(0).Len(MTU + 1)), NakInvalid, ibv.WCRemInvReqErr},
		{"before 6.6-15", "6.6-13", nil, 0, just(WriteFirst(0).Len(8).Key(1)), NakInvalid, 0},
		{"before 6.6-15", "6.6-14", nil, 0, just(WriteFirst(0).Range(0, 1<<31+1).Key(1)), NakInvalid, 0},
		{"before 6.6-16", "6.6-15", nil, 0, just(WriteOnly(0).Len(8).Range(0, 9).Key(1)), NakAccess, 0},
		{"before 6.6-19", "6.6-15", nil, 0, just(FetchAdd(1).Remote(4).Packet(0).Key(1)), NakAccess, 0},
	})
	for _, p := range []Packet{SendFirst(0).Len(8), SendOnly(0).Len(MTU + 1), WriteOnlyImm(0).Key(1)} {
		c := RC(t, "6.6-10")
		c.Gets(p)
		c.Sends(RNR(0, 12))
	}
	c := RC(t, "6.6-11")
	c.RecvRaw(queue.RecvWQE{NumSGE: 8})
	c.Gets(SendFirst(0).Len(8))
	c.Receives(Failed(101, ibv.WCLocQPOpErr))
	c.Refuses(NakOp(0))
}

func TestNothingNeedsNoMemory(t *testing.T) {
	c := RC(t, "6.6-24")
	c.Gets(Write(0).At(5, 0xBAD).Packet(0))
	c.Sends(Ack(0))
	c.Gets(Read(0).At(1<<64-1, 0xBAD).Packet(1))
	c.Sends(RespOnly(1))
	c.Recv(0)
	c.Gets(WriteOnlyImm(2).Len(0).Key(0xBAD).AckReq())
	c.Sends(Ack(2))
	c.Receives(Written(101, 0))
}

func TestImmediateWithoutReceive(t *testing.T) {
	c := RC(t, "6.6-25")
	c.Gets(WriteFirst(0), WriteLastImm(1).AckReq())
	c.Sends(RNR(1, 12))
	c.RemoteHas(0, PeerData(0, MTU))
	c.RemoteHas(MTU, c.FreshRemote(MTU, Short))
	c.Recv(0)
	c.Gets(WriteLastImm(1).AckReq())
	c.Sends(Ack(1))
	c.Receives(Written(101, MTU+Short))
	c.RemoteHas(0, Payload(WriteFirst(0), WriteLastImm(1)))
}

func TestPadThatDoesNotFit(t *testing.T) {
	for _, p := range []Packet{WriteOnly(0).Len(10).Pad(1), SendOnly(0).Len(8).Pad(3), WriteFirst(0).Pad(1)} {
		for _, typ := range []ibv.QPType{ibv.QPTypeRC, ibv.QPTypeUC} {
			c := On(t, typ, "6.6-17")
			c.Recv(MTU)
			c.Gets(p)
			c.Drops(wire.DropLength)
			c.Idle()
			c.Untouched()
		}
	}
}
