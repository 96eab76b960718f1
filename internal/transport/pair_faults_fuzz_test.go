package transport_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
)

// faultSchedule gives each frame of a simulation the fate that bytes say: two bits
// each, in turn for each end. It does not lose so many that a retry count runs out.
type faultSchedule struct {
	w      *pairWorld
	in     []byte
	lost   int    // frames, or late ones, which look lost
	before [2]int // of which when each side's program made progress last
	done   [2]int
}

// mostLost is how many frames may be lost before a request makes progress; each of
// its seven repetitions needs one more.
const mostLost = 6

func (s *faultSchedule) fate(from simnet.End, n uint64, _ []byte) simnet.Fate {
	at := 2*n + uint64(from)
	if at/4 >= uint64(len(s.in)) {
		return simnet.Chance
	}
	fate := simnet.Fate(s.in[at/4] >> (at % 4 * 2) & 3)
	if fate != simnet.Lose && fate != simnet.Delay {
		return fate
	}
	for i, h := range s.w.hosts {
		if h.prog.done != s.done[i] || h.prog.done == len(h.prog.ops) {
			s.done[i], s.before[i] = h.prog.done, s.lost
		}
		if s.lost-s.before[i] >= mostLost {
			return simnet.Chance
		}
	}
	s.lost++
	return fate
}

// scheduled is a simulation whose first bytes say what it is of.
func scheduled(in []byte) (p pairParams, rest []byte) {
	p = calmParams()
	if len(in) < 3 {
		return p, nil
	}
	kind, sizes := in[0], in[1]
	p.keep = [2]int{int(kind>>2) & 1 * 8, int(kind>>3) & 1 * 8}
	p.lateRecvs = kind>>4&1 == 1
	p.recvPause = 20 * time.Microsecond
	p.window = [2]int{1 + int(sizes&15), 1 + int(sizes>>4)*4}
	p.rdAtomic = 1 + in[2]&3
	switch kind & 3 {
	case 1:
		p.typ = ibv.QPTypeXRCSend
	case 2:
		p.windows = true
	case 3:
		p.shared = true
	}
	return p, in[3:]
}

// FuzzFaults takes bytes as what happens to each frame between two queue pairs,
// which must end as if nothing had happened: checkEnd compares them with what the
// programs come to in order, once.
func FuzzFaults(f *testing.F) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for i := range 16 {
		in := []byte{byte(i), byte(rnd.Uint32()), byte(rnd.Uint32())}
		for range 24 {
			in = append(in, byte(rnd.Uint32()&rnd.Uint32()))
		}
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		p, rest := scheduled(in)
		w := newPairWorld(t, p)
		s := &faultSchedule{w: w, in: rest[:min(len(rest), 256)]}
		w.link.Script, w.disturbed = s.fate, true
		ops := everyOp
		switch {
		case p.windows:
			ops = everyKeyOp
		case p.typ == ibv.QPTypeXRCSend:
			ops = slices.DeleteFunc(slices.Clone(ops), func(o fixedOp) bool { return o.opcode == ibv.WRAtomicWrite || o.opcode == ibv.WRFlush })
		}
		w.hosts[0].writeFixed(ops...)
		w.hosts[1].writeFixed(fixedOp{ibv.WRSend, 300}, fixedOp{ibv.WRRDMARead, 300}, fixedOp{ibv.WRAtomicFetchAdd, 8}, fixedOp{ibv.WRRDMAWrite, 600})
		w.runToEnd()
		for _, h := range w.hosts {
			if h.prog.failed != ibv.WCSuccess {
				t.Fatalf("%v: %v after %d lost frames", h.end, h.prog.failed, s.lost)
			}
			h.checkEnd(false)
			if p.windows {
				h.keys.check(h)
			}
		}
	})
}
