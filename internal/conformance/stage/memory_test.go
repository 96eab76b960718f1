package stage_test

import (
	"math"
	"testing"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// domain is the protection domain of the queue pair on stage.
func domain(c *Stage) memory.PD { return c.QP.Config().PD }

// register makes 64 bytes more of memory, at 0x90_0000.
func register(c *Stage, pd memory.PD, access ibv.Access) *memory.Region {
	c.Helper()
	mr, err := c.Env.Mem.Register(pd, 0x90_0000, make([]byte, 64), access)
	if err != nil {
		c.Fatal(err)
	}
	return mr
}

// remote are requests of a peer that name 8 bytes of remote memory, with PSN 0.
var remote = map[string]func() Packet{
	"WRITE":        func() Packet { return WriteOnly(0).Len(8) },
	"READ":         func() Packet { return ReadRequest(0).Range(0, 8) },
	"FETCH_ADD":    func() Packet { return FetchAdd(1).Packet(0) },
	"COMPARE_SWAP": func() Packet { return CompareSwap(0, 1).Packet(0) },
	"ATOMIC_WRITE": func() Packet { return AtomicWrite().Packet(0) },
	"FLUSH":        func() Packet { return Flush(8).Packet(0) },
}

// eachRemote runs a test for each of them.
func eachRemote(t *testing.T, f func(t *testing.T, request func() Packet)) {
	for name, request := range remote {
		t.Run(name, func(t *testing.T) { f(t, request) })
	}
}

func TestAllBitsOfAKeyCount(t *testing.T) {
	eachRemote(t, func(t *testing.T, request func() Packet) {
		for bit := range 32 {
			c := RC(t, "10-1")
			c.Gets(request().Key(c.RemoteKey() ^ 1<<bit))
			c.Refuses(NakAccess(0))
			c.Untouched()
		}
	})
}

func TestAllBitsOfALocalKeyCount(t *testing.T) {
	for bit := range 32 {
		c := RC(t, "10-1")
		c.Post(Send(10).LKey(c.LocalKey() ^ 1<<bit))
		c.Fails(1, ibv.WCLocProtErr)
	}
}

func TestKeysOfRegionsThatAreGone(t *testing.T) {
	eachRemote(t, func(t *testing.T, request func() Packet) {
		c := RC(t, "10-2")
		c.LoseRemote()
		for range 20 { // more than the table has places: the index comes again
			mr, err := c.Env.Mem.Register(domain(c), c.RemoteVA(), make([]byte, 64), c.QP.Query().AccessFlags)
			if err != nil {
				t.Fatal(err)
			}
			if again := mr.RKey()>>8 == c.RemoteKey()>>8; again {
				break
			}
			if err := c.Env.Mem.Deregister(mr); err != nil {
				t.Fatal(err)
			}
		}
		c.Gets(request())
		c.Refuses(NakAccess(0))
		c.Untouched()
	})
}

func TestRemoteAccessIsChecked(t *testing.T) {
	const end = 1 << 15 // of the remote memory
	for name, change := range map[string]func(c *Stage, p Packet) Packet{
		"another domain": func(c *Stage, p Packet) Packet {
			mr := register(c, domain(c)+1, ibv.AccessLocalWrite|ibv.AccessRemoteWrite|ibv.AccessRemoteRead|ibv.AccessRemoteAtomic|ibv.AccessFlushGlobal)
			return p.VA(mr.Start()).Key(mr.RKey())
		},
		"no right": func(c *Stage, p Packet) Packet {
			mr := register(c, domain(c), ibv.AccessLocalWrite)
			return p.VA(mr.Start()).Key(mr.RKey())
		},
		"before":               func(c *Stage, p Packet) Packet { return p.VA(c.RemoteVA() - 8) },
		"begins before":        func(c *Stage, p Packet) Packet { return p.VA(c.RemoteVA() - 1) },
		"after":                func(c *Stage, p Packet) Packet { return p.VA(c.RemoteVA() + end) },
		"ends after":           func(c *Stage, p Packet) Packet { return p.VA(c.RemoteVA() + end - 7) },
		"wraps":                func(c *Stage, p Packet) Packet { return p.VA(math.MaxUint64 - 3) },
		"ends where it begins": func(c *Stage, p Packet) Packet { return p.VA(math.MaxUint64 - 7) },
	} {
		t.Run(name, func(t *testing.T) {
			eachRemote(t, func(t *testing.T, request func() Packet) {
				c := RC(t, "10-3")
				c.Rule("10-4")
				c.Gets(change(c, request()))
				c.Refuses(NakAccess(0))
				c.Untouched()
			})
		})
	}
}

func TestRemoteAccessErrorAtTheRequester(t *testing.T) {
	c := RC(t, "10-4")
	c.Post(Write(10), Send(10))
	c.Sends(WriteOnly(0).AckReq(), SendOnly(1).AckReq())
	c.Gets(NakAccess(0))
	c.Fails(1, ibv.WCRemAccessErr)
}

// localFaults are entries that name memory wrongly.
var localFaults = map[string]func(c *Stage) queue.SGE{
	"stale key": func(c *Stage) queue.SGE { return queue.SGE{Addr: 0x10_0000, Length: 8, LKey: c.LocalKey() ^ 1} },
	"ends after": func(c *Stage) queue.SGE {
		return queue.SGE{Addr: 0x10_0000 + 1<<15 - 7, Length: 8, LKey: c.LocalKey()}
	},
	"another domain": func(c *Stage) queue.SGE {
		return queue.SGE{Addr: 0x90_0000, Length: 8, LKey: register(c, domain(c)+1, ibv.AccessLocalWrite).LKey()}
	},
}

func TestLocalFaultsOfSends(t *testing.T) {
	for name, fault := range localFaults {
		for _, m := range []Msg{Send(8), Write(8), Read(8), FetchAdd(1), AtomicWrite()} {
			c := RC(t, "10-5")
			c.Post(m.SGEs(fault(c)), Send(1))
			c.Fails(1, ibv.WCLocProtErr)
			if t.Failed() {
				t.Fatal(name)
			}
		}
	}
	for _, m := range []Msg{Read(8), FetchAdd(1)} { // which write to it
		c := RC(t, "10-5")
		c.Post(m.SGEs(queue.SGE{Addr: 0x90_0000, Length: 8, LKey: register(c, domain(c), 0).LKey()}))
		c.Fails(1, ibv.WCLocProtErr)
	}
}

func TestLocalFaultsOfReceives(t *testing.T) {
	for name, fault := range localFaults {
		t.Run(name, func(t *testing.T) {
			c := RC(t, "10-6")
			c.RecvSGEs(fault(c))
			c.Gets(SendOnly(0).Len(8))
			c.Refuses(NakOp(0))
			c.Receives(Failed(101, ibv.WCLocProtErr))
			c.Untouched()
		})
	}
}

func TestEmptyEntriesNeedNoKey(t *testing.T) {
	c := RC(t, "10-8")
	empty := queue.SGE{Addr: 1, LKey: 0xBAD}
	c.Post(Send(0).SGEs(empty), Read(8).SGEs(empty, queue.SGE{Addr: 0x10_0000, Length: 8, LKey: c.LocalKey()}, empty))
	c.Sends(SendOnly(0).AckReq(), ReadRequest(1).AckReq())
	c.Gets(Ack(0), RespOnly(1))
	c.Completes(Done(1), Done(2))
	c.LocalHas(0, PeerData(1, 8))
	c.RecvSGEs(empty, queue.SGE{Addr: 0x10_0040, Length: 8, LKey: c.LocalKey()}, empty)
	c.Gets(SendOnly(0).Len(8).AckReq())
	c.Sends(Ack(0))
	c.Receives(Received(101, 8))
	c.LocalHas(0x40, PeerData(0, 8))
}

func TestAtomicsNeedAnAlignedAddress(t *testing.T) {
	for _, op := range []string{"FETCH_ADD", "COMPARE_SWAP", "ATOMIC_WRITE"} {
		for off := range uint64(9) {
			c := RC(t, "10-9")
			c.Gets(remote[op]().VA(c.RemoteVA() + off))
			if off%8 == 0 {
				c.Discard()
				c.State(ibv.QPStateRTS)
				continue
			}
			c.Refuses(NakInvalid(0))
			c.Untouched()
		}
	}
}

func TestRightsOfAtomics(t *testing.T) {
	const rest = ibv.AccessLocalWrite | ibv.AccessRemoteRead
	for _, tt := range []struct {
		op    string
		right ibv.Access
		want  bool
	}{
		{"FETCH_ADD", ibv.AccessRemoteAtomic, true},
		{"FETCH_ADD", ibv.AccessRemoteWrite, false},
		{"COMPARE_SWAP", ibv.AccessRemoteAtomic, true},
		{"COMPARE_SWAP", ibv.AccessRemoteWrite, false},
		{"ATOMIC_WRITE", ibv.AccessRemoteAtomic, false},
		{"ATOMIC_WRITE", ibv.AccessRemoteWrite, true},
	} {
		c := RC(t, "10-10", RegionGrants(rest|tt.right))
		c.Gets(remote[tt.op]())
		if tt.want {
			c.Discard()
			c.State(ibv.QPStateRTS)
			continue
		}
		c.Refuses(NakAccess(0))
		c.Untouched()
	}
}

// flush is a FLUSH of a placement and level, of n bytes at off.
func flush(place ibv.FlushPlacement, level ibv.FlushLevel, off, n int) Packet {
	return Flush(n).Remote(off).Edit(func(w *queue.SendWQE) { w.FlushType, w.FlushLevel = uint16(place), uint16(level) }).Packet(0)
}

// No memory here is persistent: its registration refuses FLUSH_PERSISTENT.
func TestRightsOfFlush(t *testing.T) {
	const rest = ibv.AccessLocalWrite | ibv.AccessRemoteWrite | ibv.AccessRemoteRead
	for _, level := range []ibv.FlushLevel{ibv.FlushRange, ibv.FlushRegion} {
		for _, tt := range []struct {
			region ibv.Access
			place  ibv.FlushPlacement
			want   bool
		}{
			{rest | ibv.AccessFlushGlobal, ibv.FlushGlobal, true},
			{rest, ibv.FlushGlobal, false},
			{rest | ibv.AccessFlushGlobal, ibv.FlushPersistent, false},
			{rest | ibv.AccessFlushGlobal, ibv.FlushGlobal | ibv.FlushPersistent, false},
		} {
			c := RC(t, "10-11", RegionGrants(tt.region), Grants(rest|ibv.AccessFlushGlobal|ibv.AccessFlushPersistent))
			c.Gets(flush(tt.place, level, 0, 8))
			if tt.want {
				c.Sends(RespOnly(0))
				continue
			}
			c.Refuses(NakAccess(0))
		}
	}
}

func TestRangeOfFlush(t *testing.T) {
	const size = 1 << 15
	for _, tt := range []struct {
		name   string
		off, n int
		inside bool
	}{
		{"all of it", 0, size, true}, {"its last byte", size - 1, 1, true},
		{"one byte too many", 0, size + 1, false}, {"begins before", -1, 2, false}, {"far away", 1 << 30, 8, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := RC(t, "10-12")
			c.Gets(flush(ibv.FlushGlobal, ibv.FlushRegion, tt.off, tt.n))
			c.Sends(RespOnly(0))

			c = RC(t, "10-12")
			c.Gets(flush(ibv.FlushGlobal, ibv.FlushRange, tt.off, tt.n))
			if tt.inside {
				c.Sends(RespOnly(0))
			} else {
				c.Refuses(NakAccess(0))
			}
		})
	}
}

func TestMemoryThatGoesAwayInAWrite(t *testing.T) {
	first := WriteFirst(0).Range(0, 3*MTU)
	for _, next := range []Packet{WriteMiddle(1), WriteLast(1)} {
		c := RC(t, "10-14")
		p := first
		if next.Position(wire.RC)&wire.Last != 0 {
			p = WriteFirst(0)
		}
		c.Gets(p)
		c.LoseRemote()
		before := append([]byte{}, c.Remote(0, 3*MTU)...)
		c.Gets(next)
		c.Refuses(NakAccess(1))
		c.RemoteHas(0, before)
	}
}

func TestMemoryThatGoesAwayInAReceive(t *testing.T) {
	for lost, got := range [][]Packet{{SendOnly(0)}, {SendFirst(0), SendMiddle(1)}, {SendFirst(0), SendMiddle(1), SendLast(2)}} {
		c := RC(t, "10-15")
		c.Recv(3 * MTU)
		c.Gets(got[:lost]...)
		c.LoseBuffers()
		c.Gets(got[lost:]...)
		c.Refuses(NakOp(lost))
		c.Receives(Failed(101, ibv.WCLocProtErr))
	}
}
