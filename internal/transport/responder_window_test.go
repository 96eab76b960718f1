package transport

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// window binds a window of type 2 to n bytes at offset off of a region like the
// rig's, as queue pair qpn, and returns its key.
func (r *respRig) window(qpn uint32, off, n int, access ibv.Access) uint32 {
	r.t.Helper()
	base := r.register(respPD, respBase, r.mem, respAllAccess|ibv.AccessMWBind)
	a, err := r.env.Mem.AllocWindow(respPD, ibv.MWType2)
	if err != nil {
		r.t.Fatal(err)
	}
	b := memory.Binding{Key: a.Key() ^ 1, LKey: base.LKey(), VA: r.at(off), Len: uint64(n), Access: access}
	if !r.env.Mem.BindWindow(respPD, qpn, &b) {
		r.t.Fatal("not bound")
	}
	return b.Key
}

// fast registers n bytes at offset off with a key of their own.
func (r *respRig) fast(off, n int, access ibv.Access) uint32 {
	r.t.Helper()
	a, err := r.env.Mem.AllocFast(respPD, respSize)
	if err != nil {
		r.t.Fatal(err)
	}
	b := memory.Binding{Key: a.Key() ^ 1, LKey: r.mr.LKey(), VA: r.at(off), Len: uint64(n), Access: access}
	if !r.env.Mem.RegisterFast(respPD, &b) {
		r.t.Fatal("not registered")
	}
	return b.Key
}

func respRecvInv(wrid uint64, n, key uint32) queue.CQE {
	return queue.CQE{WRID: wrid, ByteLen: n, Opcode: ibv.WCRecv, Flags: ibv.WCFlagWithInv, Imm: key}
}

const respWinAccess = ibv.AccessRemoteRead | ibv.AccessRemoteWrite | ibv.AccessRemoteAtomic

func TestResponderServesWindows(t *testing.T) {
	conformance.Rule(t, "10-22")
	for _, tt := range []struct {
		name string
		va   func(*respRig) uint64
		flag ibv.Access
	}{
		{"by address", func(r *respRig) uint64 { return r.at(512) }, 0},
		{"zero-based", func(*respRig) uint64 { return 0 }, ibv.AccessZeroBased},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRespRig(t)
			key := r.window(0x11, 512, 1024, respWinAccess|tt.flag)
			va := tt.va(r)
			data := respFill(1, 700)
			w := respMessage(1000, data, wire.WriteFirst, wire.WriteMiddle, wire.WriteLast, wire.WriteOnly)
			w[0] = w[0].reth(va, key, 700)
			r.arrive(w...)
			r.expect(respAck(1002, 1))
			r.expectMemory(512, data)
			r.arrive(respPkt(wire.ReadRequest, 1003).reth(va+100, key, 600))
			r.expect(r.responses(1003, 2, data[100:])...)
			r.arrive(respPkt(wire.FetchAdd, 1006).atomic(va+1016, key, 5, 0))
			r.expect(respAnswer{Op: wire.AtomicAck, PSN: 1006, MSN: 3})
			r.expectMemory(512+1016, nativeWord(5))
		})
	}
}

// What the window does not allow is refused, though the region would allow it.
func TestResponderRefusesWindows(t *testing.T) {
	conformance.Rule(t, "10-19")
	for _, tt := range []struct {
		name string
		req  func(r *respRig, key uint32) respReq
		qpn  uint32
		can  ibv.Access
	}{
		{"before it", func(r *respRig, k uint32) respReq {
			return respPkt(wire.WriteOnly, 1000).reth(r.at(511), k, 4).with([]byte("data"))
		}, 0x11, respWinAccess},
		{"after it", func(r *respRig, k uint32) respReq {
			return respPkt(wire.WriteOnly, 1000).reth(r.at(512+1021), k, 4).with([]byte("data"))
		}, 0x11, respWinAccess},
		{"without the right", func(r *respRig, k uint32) respReq {
			return respPkt(wire.WriteOnly, 1000).reth(r.at(512), k, 4).with([]byte("data"))
		}, 0x11, ibv.AccessRemoteRead},
		{"bound by another queue pair", func(r *respRig, k uint32) respReq {
			return respPkt(wire.WriteOnly, 1000).reth(r.at(512), k, 4).with([]byte("data"))
		}, 0x12, respWinAccess},
		{"READ bound by another queue pair", func(r *respRig, k uint32) respReq {
			return respPkt(wire.ReadRequest, 1000).reth(r.at(512), k, 4)
		}, 0x12, respWinAccess},
		{"atomic bound by another queue pair", func(r *respRig, k uint32) respReq {
			return respPkt(wire.FetchAdd, 1000).atomic(r.at(512), k, 1, 0)
		}, 0x12, respWinAccess},
		{"FLUSH without the right", func(r *respRig, k uint32) respReq {
			return respPkt(wire.Flush, 1000).word(respFETH(wire.PlacementGlobal, 0)).reth(r.at(512), k, 4)
		}, 0x11, respWinAccess},
		{"FLUSH of a region, bound by another queue pair", func(r *respRig, k uint32) respReq {
			return respPkt(wire.Flush, 1000).word(respFETH(wire.PlacementGlobal, wire.SelectRegion)).reth(r.at(512), k, 4)
		}, 0x12, ibv.AccessFlushGlobal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRespRig(t)
			key := r.window(tt.qpn, 512, 1024, tt.can)
			r.arrive(tt.req(r, key))
			r.expect(respNak(wire.NakRemoteAccess, 1000, 0))
			r.expectMemory(0, make([]byte, 4096))
			r.expectState(ibv.QPStateErr)
			r.expectEvents(ibv.EventCommEst, ibv.EventQPAccessErr)
		})
	}
}

func TestResponderWindowIsNoReceiveBuffer(t *testing.T) {
	r := newRespRig(t)
	key := r.window(0x11, 0, 1024, respWinAccess)
	r.postSGE(1, queue.SGE{Addr: r.at(0), Length: 16, LKey: key})
	r.arrive(respSend(1000, []byte("data"))...)
	r.expect(respNak(wire.NakRemoteOp, 1000, 0))
	r.expectCompletions(respFailed(1, ibv.WCLocProtErr))
	r.expectMemory(0, make([]byte, 16))
}

func TestResponderSendWithInvalidate(t *testing.T) {
	for _, tt := range []struct {
		name string
		key  func(*respRig) uint32
	}{
		{"window", func(r *respRig) uint32 { return r.window(0x11, 512, 1024, respWinAccess) }},
		{"fast-registered region", func(r *respRig) uint32 {
			return r.fast(512, 1024, ibv.AccessLocalWrite|ibv.AccessRemoteWrite|ibv.AccessRemoteRead)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRespRig(t)
			key := tt.key(r)
			r.post(7, 4096, 1024)
			r.arrive(respPkt(wire.WriteOnly, 1000).reth(r.at(512), key, 4).with([]byte("data")))
			r.expectMemory(512, []byte("data"))
			// Two packets: the key goes with the last.
			data := respFill(3, 300)
			r.arrive(respPkt(wire.SendFirst, 1001).with(data[:256]))
			r.expectCompletions()
			last := respPkt(wire.SendLastInv, 1002).word(key).with(data[256:]).asks()
			r.arrive(last)
			r.expect(respAck(1002, 2))
			r.expectMemory(4096, data)
			r.expectCompletions(respRecvInv(7, 300, key))
			r.arrive(last) // a duplicate does nothing again
			r.expect(respAck(1002, 2))
			r.expectCompletions()

			r.arrive(respPkt(wire.WriteOnly, 1003).reth(r.at(512), key, 4).with([]byte("more")))
			r.expect(respNak(wire.NakRemoteAccess, 1003, 2))
			r.expectMemory(512, []byte("data"))
			r.expectState(ibv.QPStateErr)
		})
	}
}

// The payload is in place, the receive fails, the peer is told nothing.
func TestResponderCannotInvalidate(t *testing.T) {
	conformance.Rule(t, "10-24")
	for _, tt := range []struct {
		name string
		key  func(*respRig) uint32
	}{
		{"window of another queue pair", func(r *respRig) uint32 { return r.window(0x12, 512, 1024, respWinAccess) }},
		{"stale tag", func(r *respRig) uint32 { return r.window(0x11, 512, 1024, respWinAccess) ^ 2 }},
		{"no key", func(*respRig) uint32 { return 0xFFFFFFFF }},
		{"twice", func(r *respRig) uint32 {
			k := r.window(0x11, 512, 1024, respWinAccess)
			r.env.Mem.Invalidate(k, respPD)
			return k
		}},
		{"region with a window on it", func(r *respRig) uint32 {
			k := r.fast(512, 1024, ibv.AccessLocalWrite|ibv.AccessMWBind)
			a, err := r.env.Mem.AllocWindow(respPD, ibv.MWType1)
			if err != nil {
				r.t.Fatal(err)
			}
			if !r.env.Mem.BindWindow(respPD, 0x11, &memory.Binding{Key: a.Key() ^ 1, LKey: k, VA: r.at(512), Len: 8}) {
				r.t.Fatal("not bound")
			}
			return k
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRespRig(t)
			key := tt.key(r)
			_, before := r.env.Mem.CheckRemote(key, respPD, 0x12, 0, r.at(512), 8)
			r.post(1, 0, 16)
			r.post(2, 0, 16)
			r.arrive(respPkt(wire.SendOnlyInv, 1000).word(key).with([]byte("data")).asks())
			r.expectMemory(0, []byte("data"))
			r.expect()
			r.expectCompletions(respFailed(1, ibv.WCRemInvReqErr), respFailed(2, ibv.WCWRFlushErr))
			r.expectEvents(ibv.EventCommEst, ibv.EventQPReqErr)
			r.expectState(ibv.QPStateErr)
			r.expectCount(DropInvalidate, 1)
			if _, after := r.env.Mem.CheckRemote(key, respPD, 0x12, 0, r.at(512), 8); after != before {
				t.Errorf("the key was %v, is %v", before, after)
			}
		})
	}
}

// A READ whose key goes between two of its responses ends there.
func TestResponderReadLosesItsWindow(t *testing.T) {
	conformance.Rule(t, "10-13")
	r := newRespRig(t)
	key := r.window(0x11, 0, 4*respMTU, respWinAccess)
	data := respFill(9, 4*respMTU)
	copy(r.mem, data)
	r.arrive(respPkt(wire.ReadRequest, 1000).reth(r.at(0), key, 4*respMTU))
	r.tx.Reset(2)
	r.q.Poll(r.now, r.tx)
	if len(r.tx.Intents) != 2 {
		t.Fatalf("%d responses", len(r.tx.Intents))
	}
	if !r.env.Mem.Invalidate(key, respPD) {
		t.Fatal("not invalidated")
	}
	r.expect(respNak(wire.NakRemoteAccess, 1002, 1))
	r.expectState(ibv.QPStateErr)
}

// A WRITE whose window is bound anew between two of its packets ends there.
func TestResponderWriteLosesItsWindow(t *testing.T) {
	conformance.Rule(t, "10-14")
	r := newRespRig(t)
	key := r.window(0x11, 0, 4*respMTU, respWinAccess)
	w := respMessage(1000, respFill(9, 4*respMTU), wire.WriteFirst, wire.WriteMiddle, wire.WriteLast, wire.WriteOnly)
	w[0] = w[0].reth(r.at(0), key, 4*respMTU)
	r.arrive(w[:2]...)
	if !r.env.Mem.Invalidate(key, respPD) {
		t.Fatal("not invalidated")
	}
	r.arrive(w[2])
	r.expect(respNak(wire.NakRemoteAccess, 1002, 0))
	r.expectMemory(2*respMTU, make([]byte, 2*respMTU))
}

func TestResponderWindowsDoNotAllocate(t *testing.T) {
	r := newRespRig(t, respAt(0))
	key := r.window(0x11, 512, 1024, respWinAccess)
	p := respPkt(wire.WriteOnly, 0).reth(r.at(512), key, 4).with([]byte("data")).packet()
	if n := testing.AllocsPerRun(100, func() {
		wire.BTHAt(p.BTH).SetPSN(r.q.resp.st.ePSN)
		r.q.HandlePacket(r.now, p)
		r.tx.Reset(64)
		r.q.Poll(r.now, r.tx)
		r.respDrain()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	r.expectMemory(512, []byte("data"))
}
