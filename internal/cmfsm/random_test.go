package cmfsm

import (
	"flag"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

var (
	simSeed  = flag.Uint64("seed", 0, "run only this simulation")
	simSeeds = flag.Uint64("seeds", 3000, "number of simulations")
)

// Hosts whose applications do anything at any time, over a link that loses,
// copies and delays, until it is good again: then nobody is left connected to
// nobody, and in the end nothing is left at all.
func TestRandom(t *testing.T) {
	first, last := uint64(1), *simSeeds
	if *simSeed != 0 {
		first, last = *simSeed, *simSeed
	}
	var total simStats
	for seed := first; seed <= last; seed++ {
		s := newSim(t, seed)
		s.run()
		total.add(&s.stats)
	}
	t.Logf("%+v", total)
	if *simSeed == 0 && *simSeeds >= 1000 {
		total.check(t)
	}
}

// simStats show that the simulations reach what they are for.
type simStats struct {
	Established, Rejected, Unreachable, Stale, Lost, Copied, Simultaneous, ByTraffic, SIDR int
}

func (s *simStats) add(o *simStats) {
	s.Established += o.Established
	s.Rejected += o.Rejected
	s.Unreachable += o.Unreachable
	s.Stale += o.Stale
	s.Lost += o.Lost
	s.Copied += o.Copied
	s.Simultaneous += o.Simultaneous
	s.ByTraffic += o.ByTraffic
	s.SIDR += o.SIDR
}

func (s *simStats) check(t *testing.T) {
	t.Helper()
	for what, n := range map[string]int{
		"established": s.Established, "rejected": s.Rejected, "unreachable": s.Unreachable, "stale": s.Stale, "lost": s.Lost,
		"copied": s.Copied, "ended by both at once": s.Simultaneous, "established by traffic": s.ByTraffic, "of UD": s.SIDR,
	} {
		if n < 20 {
			t.Errorf("only %d %s: the simulations are too tame", n, what)
		}
	}
}

// after says which events may follow which, of one id.
var after = map[EventType][]EventType{
	EventConnectRequest:  {EventEstablished, EventRejected, EventUnreachable, EventDisconnected},
	EventConnectResponse: {EventEstablished, EventRejected, EventDisconnected},
	EventEstablished:     {EventDisconnected, EventRejected},
	EventRejected:        {EventTimewaitExit},
	EventDisconnected:    {EventTimewaitExit},
}

// first events of an id that was created, not asked for.
var firstOwn = []EventType{EventConnectResponse, EventRejected, EventUnreachable, EventEstablished}

type simKey struct {
	h  *host
	id ID
}

type sim struct {
	*world
	r       *rand.Rand
	last    map[simKey]EventType
	gone    map[simKey]bool // destroyed
	excused map[uint32]bool // communication ids of ends that the peer cannot have heard of
	qpn     uint32
	quiet   bool // applications do nothing any more
	stats   simStats
}

func newSim(t *testing.T, seed uint64) *sim {
	s := &sim{
		world: newWorld(t, seed), r: rand.New(rand.NewPCG(seed, 77)), last: map[simKey]EventType{}, gone: map[simKey]bool{},
		excused: map[uint32]bool{}, qpn: 0x100,
	}
	loss, dup, slow := s.r.Float64()*0.35, s.r.Float64()*0.3, s.r.Float64()*0.3
	s.fate = func(_ int, _ *MAD) []time.Duration {
		delay := func() time.Duration {
			if s.r.Float64() < slow {
				return time.Duration(s.r.Int64N(int64(6 * time.Second)))
			}
			return linkDelay
		}
		switch {
		case s.quiet:
			return []time.Duration{linkDelay}
		case s.r.Float64() < loss:
			s.stats.Lost++
			return nil
		case s.r.Float64() < dup:
			s.stats.Copied++
			return []time.Duration{delay(), delay()}
		}
		return []time.Duration{delay()}
	}
	s.a.app, s.b.app = s.event, s.event
	return s
}

// chance is one in n.
func (s *sim) chance(n int) bool { return s.r.IntN(n) == 0 }

func (s *sim) soon() time.Duration { return time.Duration(s.r.Int64N(int64(20 * time.Second))) }

func (s *sim) run() {
	for _, h := range []*host{s.a, s.b} {
		for _, ps := range []wire.PortSpace{wire.PortSpaceTCP, wire.PortSpaceUDP} {
			id := s.create(h, ps)
			_, err := h.Bind(id, netip.AddrPortFrom(netip.IPv4Unspecified(), testPort))
			s.check(err)
			s.check(h.Listen(id, 1+s.r.IntN(4)))
		}
	}
	for range 1 + s.r.IntN(8) {
		h, peer := s.a, s.b
		if s.chance(3) {
			h, peer = peer, h
		}
		s.later(s.soon(), func() { s.dial(h, peer) })
	}
	s.world.run(59 * time.Second)
	s.quiet = true
	s.calls = nil
	s.world.run(time.Hour)
	s.checkHalfOpen(s.a, s.b)
	s.checkHalfOpen(s.b, s.a)
	s.a.dropOwner(s.now, 1)
	s.b.dropOwner(s.now, 1)
	s.world.run(time.Hour)
	s.checkEmpty(s.a, 0)
	s.checkEmpty(s.b, 0)
	for _, h := range []*host{s.a, s.b} {
		s.stats.Stale += int(h.Counters()[CounterStale])
	}
}

func (s *sim) dial(h, peer *host) {
	ps := wire.PortSpaceTCP
	if s.chance(5) {
		ps = wire.PortSpaceUDP
	}
	id := s.create(h, ps)
	r := &Route{Local: netip.AddrPortFrom(h.addr, 0), Remote: netip.AddrPortFrom(peer.addr, testPort), MTU: ibv.MTU1024}
	if s.chance(10) {
		r.Remote = netip.AddrPortFrom(peer.addr, 1)
	}
	s.check(h.Connect(s.now, id, r, &ConnParam{QPN: s.newQPN(), ResponderResources: 1, InitiatorDepth: 1}))
	if s.chance(4) {
		s.later(s.soon(), func() { s.destroy(h, id) })
	}
}

// newQPN is mostly new; sometimes it is one that was used just now.
func (s *sim) newQPN() uint32 {
	if s.chance(6) {
		return s.qpn
	}
	s.qpn++
	return s.qpn
}

// destroy ends an id and notes what its peer cannot hear of: a single REJ that
// refuses it after Accept may be lost.
func (s *sim) destroy(h *host, id ID) {
	k := simKey{h, id}
	if s.gone[k] {
		return
	}
	c := h.ids[id]
	if c.state == StateREPSent || c.state == StateMRAREPRcvd {
		s.excused[c.peerCommID] = true
	}
	s.logf("%s: destroys %d in %v", h.name, id, c.state)
	s.check(h.Destroy(s.now, id))
	s.gone[k] = true
}

// try calls something that may be too late.
func (s *sim) try(h *host, id ID, what string, f func() error) {
	if s.gone[simKey{h, id}] {
		return
	}
	s.logf("%s: %s of %d in %v", h.name, what, id, h.ids[id].state)
	if err := f(); err != nil {
		s.logf("%s: %v", h.name, err)
	}
}

// sometime does something now or later.
func (s *sim) sometime(f func()) {
	if s.chance(2) {
		f()
		return
	}
	s.later(s.soon(), f)
}

func (s *sim) event(h *host, e Event) {
	s.checkOrder(h, e)
	switch e.Type {
	case EventRejected:
		s.stats.Rejected++
	case EventUnreachable:
		s.stats.Unreachable++
		s.excused[h.ids[e.ID].peerCommID] = true
	case EventEstablished:
		s.established(h, e)
	default:
	}
	if s.quiet {
		return
	}
	switch e.Type {
	case EventConnectRequest, EventConnectResponse:
		s.sometime(func() { s.decide(h, e.ID) })
	case EventEstablished:
		s.later(s.soon(), func() { s.end(h, e.ID) })
	case EventDisconnected:
		s.sometime(func() { s.end(h, e.ID) })
	case EventRejected, EventUnreachable, EventTimewaitExit:
		if s.chance(2) {
			s.destroy(h, e.ID)
		}
	default:
	}
}

// checkOrder fails for an event that must not come where it does.
func (s *sim) checkOrder(h *host, e Event) {
	k := simKey{h, e.ID}
	if s.gone[k] {
		s.fatal("%s: event %v of %d, which is destroyed", h.name, e.Type, e.ID)
	}
	prev, seen := s.last[k]
	allowed := after[prev]
	if !seen {
		allowed = firstOwn
		if e.Listener != 0 {
			allowed = []EventType{EventConnectRequest}
		}
	}
	if !slices.Contains(allowed, e.Type) {
		s.fatal("%s: event %v of %d after %v (%v)", h.name, e.Type, e.ID, prev, seen)
	}
	s.last[k] = e.Type
}

func (s *sim) decide(h *host, id ID) {
	s.try(h, id, "decision", func() error {
		switch s.r.IntN(10) {
		case 0:
			return h.Reject(id, 0, nil)
		case 1:
			s.destroy(h, id)
			return nil
		}
		p := &ConnParam{QPN: s.newQPN(), ResponderResources: 1, InitiatorDepth: 1}
		return h.Accept(s.now, id, p)
	})
}

func (s *sim) end(h *host, id ID) {
	s.try(h, id, "end", func() error {
		c := h.ids[id]
		if peer := s.peerOf(h, c); peer != nil && peer.state == StateDREQSent && c.state == StateEstablished {
			s.stats.Simultaneous++
		}
		if s.chance(4) {
			s.destroy(h, id)
			return nil
		}
		return h.Disconnect(s.now, id)
	})
}

func (s *sim) other(h *host) *host {
	if h == s.a {
		return s.b
	}
	return s.a
}

// peerOf is the other end of a connection, nil if it is not there any more.
func (s *sim) peerOf(h *host, c *conn) *conn {
	p := s.other(h).comm[c.peerCommID]
	if p == nil || p.peerCommID != c.commID {
		return nil
	}
	return p
}

// established compares both queue pairs, and lets the first packet arrive.
func (s *sim) established(h *host, e Event) {
	c := h.ids[e.ID]
	if c.typ == ibv.QPTypeUD {
		s.stats.SIDR++
		return
	}
	s.stats.Established++
	p := s.peerOf(h, c)
	if p == nil {
		return
	}
	mine, err := h.QPAttr(e.ID, nil)
	s.check(err)
	theirs, err := s.other(h).QPAttr(p.id, nil)
	if err != nil {
		return // on its way to the end already
	}
	got := []any{theirs.DestQPN, theirs.RQPSN, theirs.SQPSN, theirs.PathMTU, theirs.MaxRDAtomic, theirs.LocalGID, theirs.AV.FlowLabel}
	want := []any{c.qpn, mine.SQPSN, mine.RQPSN, mine.PathMTU, mine.MaxDestRDAtomic, mine.AV.DGID, mine.AV.FlowLabel}
	if d := cmp.Diff(want, got); d != "" {
		s.fatal("queue pairs of %s's %d and its peer's %d: (-mine +theirs)\n%s", h.name, e.ID, p.id, d)
	}
	if !c.passive && (p.state == StateREPSent || p.state == StateMRAREPRcvd) && s.chance(2) {
		s.stats.ByTraffic++
		s.check(s.other(h).Established(p.id))
	}
}

// checkHalfOpen fails for a connection whose other end is not connected.
func (s *sim) checkHalfOpen(h, peer *host) {
	for _, c := range h.ids {
		if c.state != StateEstablished || s.excused[c.commID] {
			continue
		}
		if p := s.peerOf(h, c); p == nil || p.state != StateEstablished {
			state := "gone"
			if p != nil {
				state = p.state.String()
			}
			s.fatal("%s: %d is established, its peer at %s is %s", h.name, c.id, peer.name, state)
		}
	}
}
