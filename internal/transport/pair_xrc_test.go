package transport_test

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
)

// Of XRC each host has an initiator, and a target in a domain of a queue that the
// peer's requests name and one that nobody does.

// srqn is the number of the host's queue.
func (h *pairHost) srqn() uint32 { return 0xF0_0000 + uint32(h.end) }

// makeTarget takes what receives from the initiator's configuration.
func (h *pairHost) makeTarget(cfg *Config) {
	d := NewXRCD()
	d.Add(NewXRCSRQ(cfg.RQ, cfg.PD, cfg.RecvCQ, h.srqn()))
	d.Add(NewXRCSRQ(cfg.RQ, 2, cfg.RecvCQ, h.srqn()+2))
	h.tgt = NewQP(h.env, Config{QPN: cfg.QPN + 0x100, Type: ibv.QPTypeXRCRecv, XRCD: d, Context: cfg.Context})
	cfg.RQ, cfg.RecvCQ = nil, nil
}

// connectXRC brings both queue pairs to RTS.
func (h *pairHost) connectXRC(attr ibv.QPAttr) {
	const (
		toInit = ibv.QPAttrPKeyIndex | ibv.QPAttrPort | ibv.QPAttrAccessFlags
		toRTR  = ibv.QPAttrAV | ibv.QPAttrPathMTU | ibv.QPAttrDestQPN | ibv.QPAttrRQPSN
	)
	h.toRTS(h.tgt, attr, [3]ibv.AttrMask{toInit, toRTR | ibv.QPAttrMaxDestRDAtomic | ibv.QPAttrMinRNRTimer,
		ibv.QPAttrTimeout | ibv.QPAttrSQPSN})
	attr.DestQPN = h.peer.tgt.QPN()
	h.toRTS(h.qp, attr, [3]ibv.AttrMask{toInit, toRTR,
		ibv.QPAttrTimeout | ibv.QPAttrRetryCnt | ibv.QPAttrRNRRetry | ibv.QPAttrSQPSN | ibv.QPAttrMaxQPRDAtomic})
}

// TestPairXRC is TestPair of XRC, both ways at once.
func TestPairXRC(t *testing.T) {
	first, last := seedRange(2001, 100)
	gaveUp := 0
	eachSeed(t, "", first, last, func(t *testing.T, seed uint64, rec worldRecorder) {
		p := drawParams(seed)
		p.typ, p.rec = ibv.QPTypeXRCSend, rec
		if runPair(t, p) {
			gaveUp++
		}
	})
	if total := int(last - first + 1); gaveUp > total/4 {
		t.Errorf("%d of %d connections broke: the conditions test little", gaveUp, total)
	}
}

// Each frame in turn is lost.
func TestPairXRCEachFrameOnce(t *testing.T) {
	p := calmParams()
	p.typ = ibv.QPTypeXRCSend
	total := frames(t, p)
	for _, from := range []simnet.End{simnet.A, simnet.B} {
		for n := range total[from] {
			runFaults(t, p, fate{from, n, simnet.Lose})
		}
	}
}
