package cmfsm

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

const (
	linkDelay = 50 * time.Microsecond
	testPort  = 7174
)

// host is a machine and the application on it.
type host struct {
	*Machine
	name   string
	addr   netip.Addr
	events []Event
	// app is told each event, and may call the machine.
	app func(h *host, e Event)
}

// call is something that an application does later.
type call struct {
	at  mono.Time
	seq int
	do  func()
}

// flight is a MAD on its way.
type flight struct {
	at  mono.Time
	seq int
	to  *host
	mad MAD
}

// world is two hosts, a link and a clock.
type world struct {
	t       testing.TB
	now     mono.Time
	a, b    *host // a connects, b listens
	flights []flight
	calls   []call
	sent    int    // MADs so far
	log     []byte // what happened, for failures
	// fate says after which delays copies of the n-th MAD, from 1 on, arrive; none
	// means that it is lost. Nil delivers everything.
	fate func(n int, m *MAD) []time.Duration
}

func newHost(t testing.TB, name string, addr string, seed uint64, cfg Config) *host {
	t.Helper()
	ip := netip.MustParseAddr(addr)
	cfg.GUID = 0x5054_00ff_fe00_0000 | uint64(ip.As16()[15])
	cfg.Rand = rand.NewPCG(seed, uint64(ip.As16()[15]))
	return &host{Machine: New(cfg), name: name, addr: ip}
}

func newWorld(t testing.TB, seed uint64) *world { return newWorldOf(t, seed, "10.0.0.1", "10.0.0.2") }

func newWorldOf(t testing.TB, seed uint64, a, b string) *world {
	w := &world{t: t, now: 1, a: newHost(t, "a", a, seed, Config{}), b: newHost(t, "b", b, seed, Config{})}
	return w
}

func (w *world) logf(format string, args ...any) {
	w.log = fmt.Appendf(w.log, "%12v ", time.Duration(w.now))
	w.log = fmt.Appendf(w.log, format+"\n", args...)
}

// fatal ends the test with what happened before.
func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), w.log)
}

// drain takes out what both machines have to say until they are silent.
func (w *world) drain() {
	for again := true; again; {
		again = false
		for _, h := range []*host{w.a, w.b} {
			for m, ok := h.NextMAD(); ok; m, ok = h.NextMAD() {
				w.carry(h, &m)
				again = true
			}
			for e, ok := h.NextEvent(); ok; e, ok = h.NextEvent() {
				w.logf("%s: event %v of %d, status %d", h.name, e.Type, e.ID, e.Status)
				h.events = append(h.events, e)
				if h.app != nil {
					h.app(h, e)
				}
				again = true
			}
		}
	}
}

// carry puts a MAD on the link.
func (w *world) carry(from *host, m *MAD) {
	w.sent++
	delays := []time.Duration{linkDelay}
	if w.fate != nil {
		delays = w.fate(w.sent, m)
	}
	w.logf("%s: sends %v, number %d, arrives after %v", from.name, m.Data.Attr(), w.sent, delays)
	to := w.a
	if m.Remote == w.b.addr {
		to = w.b
	}
	for i, d := range delays {
		w.flights = append(w.flights, flight{w.now.Add(d), w.sent*8 + i, to, *m})
	}
}

// later lets an application do something after a while.
func (w *world) later(d time.Duration, do func()) {
	w.sent++
	w.calls = append(w.calls, call{w.now.Add(d), w.sent, do})
}

// nextCall is the index of the earliest call before the given time, -1 if there is none.
func (w *world) nextCall(before mono.Time) int {
	best := -1
	for i, c := range w.calls {
		if c.at < before || c.at == before && best >= 0 && c.seq < w.calls[best].seq {
			best, before = i, c.at
		}
	}
	return best
}

// step goes to the next point of time at which something happens, and lets it.
func (w *world) step(end mono.Time) bool {
	w.drain()
	next := mono.Min(w.a.NextDeadline(), w.b.NextDeadline())
	i := -1
	for j, f := range w.flights {
		if f.at < next || f.at == next && (i < 0 || f.seq < w.flights[i].seq) {
			i, next = j, f.at
		}
	}
	if j := w.nextCall(next); j >= 0 && w.calls[j].at <= end {
		c := w.calls[j]
		w.calls = slices.Delete(w.calls, j, j+1)
		w.now = max(w.now, c.at)
		c.do()
		return true
	}
	if next > end {
		w.now = end
		return false
	}
	w.now = max(w.now, next)
	if i >= 0 {
		f := w.flights[i]
		w.flights = slices.Delete(w.flights, i, i+1)
		back := f.mad.Path
		back.Local, back.Remote = back.Remote, back.Local
		back.SL = 0 // which no packet carries
		f.to.Handle(w.now, &back, f.mad.Data[:])
		return true
	}
	w.a.Poll(w.now)
	w.b.Poll(w.now)
	return true
}

// run lets time pass.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for w.step(end) {
	}
	w.drain()
}

// runUntil lets time pass until cond holds.
func (w *world) runUntil(what string, d time.Duration, cond func() bool) {
	w.t.Helper()
	end := w.now.Add(d)
	for {
		w.drain()
		if cond() {
			return
		}
		if !w.step(end) {
			w.fatal("not after %v: %s", d, what)
		}
	}
}

func (h *host) types() []EventType {
	var all []EventType
	for _, e := range h.events {
		all = append(all, e.Type)
	}
	return all
}

// last is the newest event of a type.
func (h *host) last(t EventType) (Event, bool) {
	for _, e := range slices.Backward(h.events) {
		if e.Type == t {
			return e, true
		}
	}
	return Event{}, false
}

func (h *host) count(t EventType) int {
	return len(slices.DeleteFunc(h.types(), func(x EventType) bool { return x != t }))
}

func names(types []EventType) string {
	var all []string
	for _, t := range types {
		all = append(all, t.String())
	}
	return strings.Join(all, " ")
}

// check fails the test for an error.
func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.fatal("%v", err)
	}
}

// create makes an id of the type that its port space has.
func (w *world) create(h *host, ps wire.PortSpace) ID {
	w.t.Helper()
	typ := ibv.QPTypeRC
	if ps == wire.PortSpaceUDP {
		typ = ibv.QPTypeUD
	}
	id, err := h.Create(1, ps, typ)
	w.check(err)
	return id
}

// listen makes a listener on the unspecified address of b's family.
func (w *world) listen(ps wire.PortSpace, backlog int) ID {
	w.t.Helper()
	id := w.create(w.b, ps)
	addr := netip.IPv4Unspecified()
	if w.b.addr.Is6() {
		addr = netip.IPv6Unspecified()
	}
	_, err := w.b.Bind(id, netip.AddrPortFrom(addr, testPort))
	w.check(err)
	w.check(w.b.Listen(id, backlog))
	return id
}

func (w *world) route() *Route {
	return &Route{
		Local: netip.AddrPortFrom(w.a.addr, 0), Remote: netip.AddrPortFrom(w.b.addr, testPort), MTU: ibv.MTU1024,
	}
}

var (
	activeParam  = ConnParam{QPN: 0x11, ResponderResources: 3, InitiatorDepth: 4, RetryCount: 5, RNRRetryCount: 6, PrivateData: []byte("hello")}
	passiveParam = ConnParam{QPN: 0x22, ResponderResources: 4, InitiatorDepth: 2, RNRRetryCount: 7, PrivateData: []byte("welcome")}
)

// connect starts a connection from a to b.
func (w *world) connect(ps wire.PortSpace) ID {
	w.t.Helper()
	id := w.create(w.a, ps)
	p := activeParam
	w.check(w.a.Connect(w.now, id, w.route(), &p))
	return id
}

// polite is an application that accepts everything, agrees to the end, and
// destroys what is over.
func (w *world) polite(h *host, e Event) {
	switch e.Type {
	case EventConnectRequest:
		p := passiveParam
		w.check(h.Accept(w.now, e.ID, &p))
	case EventConnectResponse:
		w.check(h.Accept(w.now, e.ID, nil))
	case EventDisconnected:
		w.check(h.Disconnect(w.now, e.ID))
	default:
	}
}

// checkEmpty fails when a machine still knows something but its n ids.
func (w *world) checkEmpty(h *host, n int) {
	w.t.Helper()
	if got := h.Len(); got != n || len(h.ids) != n || len(h.timers) != 0 || len(h.comm)+len(h.peerComm)+len(h.peerQPN)+len(h.questions)+len(h.held) != 0 || n == 0 && len(h.owned)+len(h.ports) != 0 {
		w.fatal("%s has %d ids (%d live), want %d; %d timers, %d communication ids, %d and %d of peers, %d questions, %d numbers held",
			h.name, len(h.ids), got, n, len(h.timers), len(h.comm), len(h.peerComm), len(h.peerQPN), len(h.questions), len(h.held))
	}
}
