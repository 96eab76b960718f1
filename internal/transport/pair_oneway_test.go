package transport_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
)

var oneWayTypes = []ibv.QPType{ibv.QPTypeUC, ibv.QPTypeUD, ibv.QPTypeGSI}

// TestPairOneWay joins two engines without acknowledgements by a link that loses,
// repeats, reorders and corrupts. Messages get lost, but what arrives is one
// that was sent and all of it, and all that was posted completes once.
func TestPairOneWay(t *testing.T) {
	first, last := seedRange(1, 100)
	for _, typ := range oneWayTypes {
		sent, delivered, abandoned := 0, 0, uint64(0)
		eachSeed(t, typ.String()+"/", first, last, func(t *testing.T, seed uint64, rec worldRecorder) {
			p := drawFlow(seed, typ)
			p.rec = rec
			w := runFlow(t, p, nil)
			for _, h := range w.hosts {
				sent += len(h.flow.messages)
				delivered += h.flow.delivered
				abandoned += h.env.Counters[AbandonedMessages]
			}
		})
		if *pairSeed == 0 && (delivered < sent/4 || delivered == sent || (abandoned != 0) != (typ == ibv.QPTypeUC)) {
			t.Errorf("%v: %d of %d messages delivered, %d abandoned: the conditions test little", typ, delivered, sent, abandoned)
		}
	}
}

func runFlow(t *testing.T, p pairParams, script func(simnet.End, uint64, []byte) simnet.Fate) *pairWorld {
	t.Helper()
	w := newPairWorld(t, p)
	w.link.Script = script
	for _, h := range w.hosts {
		h.flow = &pairFlow{h: h}
	}
	for _, h := range w.hosts {
		h.writeFlow(w.ops[h.end])
	}
	w.runToEnd()
	for _, h := range w.hosts {
		h.checkFlow()
	}
	return w
}

// inOrder reports whether frames arrive once and in the order of sending.
func (w *pairWorld) inOrder() bool {
	good := func(c simnet.Conditions) bool { return c.Duplicate+c.Reorder == 0 && c.Jitter == 0 }
	return !w.disturbed && good(w.fromA) && good(w.fromB)
}

// checkFlow is what must be true when all is over.
func (h *pairHost) checkFlow() {
	w, p := h.w, &h.prog
	if h.qp.State() != ibv.QPStateRTS || p.failed != ibv.WCSuccess || p.done != len(p.ops) {
		w.failf("%v: ends in %v, %v", h.end, h.qp.State(), p)
	}
	if d := h.qp.NextDeadline(); d != mono.Never {
		w.failf("%v: idle, but due in %v", h.end, d.Sub(w.now))
	}
	// Nothing is repeated and nothing answered.
	if n := h.env.Counters[SentPkts]; n != h.flow.packets {
		w.failf("%v: sent %d packets, want %d", h.end, n, h.flow.packets)
	}
	for _, c := range []Counter{DropState, DropPeer, DropPKey, DropOpcode, DropQKey, DropLength, DropBufferSize, DropAccess, PayloadFault, AddressFault} {
		if n := h.env.Counters[c]; n != 0 {
			w.failf("%v: %v is %d", h.end, c, n)
		}
	}
	h.flow.checkMemory()
}

// flowParams are a calm link and all receives posted in time.
func flowParams(typ ibv.QPType) pairParams {
	p := calmParams()
	p.typ, p.ops = typ, [2]int{24, 24}
	return p
}

// With nothing lost everything arrives, in order, once.
func TestPairOneWayOnACalmLink(t *testing.T) {
	for _, typ := range oneWayTypes {
		for seed := uint64(1); seed <= 10; seed++ {
			p := flowParams(typ)
			p.seed, p.v6 = seed, seed%2 == 0
			w := runFlow(t, p, nil)
			for _, h := range w.hosts {
				want := 0
				for _, m := range h.flow.messages {
					if m.op != ibv.WRRDMAWrite {
						want++
					}
					if m.write() && !bytes.Equal(h.flow.bytes([]span{m.target}), m.data) {
						t.Errorf("%v: %v lacks data of a %v", typ, h.end, m.op)
					}
				}
				if h.flow.delivered != want {
					t.Errorf("%v: %v got %d of %d messages", typ, h.end, h.flow.delivered, want)
				}
				for _, c := range []Counter{OutOfSeqRequest, AbandonedMessages, DropNoReceive, DropOutOfOrder} {
					if n := h.env.Counters[c]; n != 0 {
						t.Errorf("%v: %v is %d", typ, c, n)
					}
				}
			}
			if took := w.now.Sub(pairBegin); took > 100*time.Microsecond {
				t.Errorf("%v: it took %v", typ, took)
			}
		}
	}
}

// Each frame in turn is lost: it costs its own message and no other.
func TestPairOneWayEachFrameOnce(t *testing.T) {
	for _, typ := range oneWayTypes {
		p := flowParams(typ)
		p.ops = [2]int{12, 0}
		calm := runFlow(t, p, nil)
		whole := calm.hosts[1].flow.delivered
		for n := range calm.link.Stats(simnet.A).Sent {
			w := runFlow(t, p, func(_ simnet.End, i uint64, _ []byte) simnet.Fate {
				if i == n {
					return simnet.Lose
				}
				return simnet.Chance
			})
			lost := whole - w.hosts[1].flow.delivered
			if mayBeWrite := typ == ibv.QPTypeUC; lost != 1 && (!mayBeWrite || lost != 0) {
				t.Errorf("%v: frame %d was lost, and with it %d messages", typ, n, lost)
			}
		}
	}
}
