package cmfsm

import (
	"container/heap"
	"math/rand/v2"
	"net/netip"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Machine is the connection manager of one device. It is not safe for
// concurrent use.
type Machine struct {
	cfg  Config
	rand *rand.Rand

	lastID ID
	ids    map[ID]*conn     // what applications can name
	ports  map[portKey]port // bound ids
	live   int              // ids, and destroyed ones that still have to wait
	owned  map[Owner]int    // the same by owner

	comm      map[uint32]*conn    // by our communication id
	peerComm  map[peerComm]*conn  // by the peer's: finds repeated REQs
	peerQPN   map[peerQPN]*conn   // by the peer's queue pair: finds stale connections
	questions map[question]*conn  // UD requests of peers
	held      map[uint32]int      // queue pair numbers that must not be used again yet
	timers    timers              //
	mads      queue[MAD]          // for NextMAD
	events    queue[pendingEvent] // for NextEvent

	counters Counters
}

// peerComm is a peer's name of a connection. The address is in it so that a
// host cannot meddle with the connections of another by using its GUID, and so
// that two that have the same by mistake do not disturb each other.
type peerComm struct {
	addr netip.Addr
	guid uint64
	id   uint32
}

// peerQPN is a peer's queue pair.
type peerQPN struct {
	addr netip.Addr
	guid uint64
	qpn  uint32
}

// New makes a machine without ids. cfg.Rand must be set.
func New(cfg Config) *Machine {
	return &Machine{
		cfg:       cfg.withDefaults(),
		rand:      rand.New(cfg.Rand),
		ids:       map[ID]*conn{},
		ports:     map[portKey]port{},
		owned:     map[Owner]int{},
		comm:      map[uint32]*conn{},
		peerComm:  map[peerComm]*conn{},
		peerQPN:   map[peerQPN]*conn{},
		questions: map[question]*conn{},
		held:      map[uint32]int{},
	}
}

// SetMTU tells the machine that the port's path MTU has changed. Connections
// that there are keep theirs.
func (m *Machine) SetMTU(mtu ibv.MTU) { m.cfg.MTU = mtu }

// Len is the number of ids, and of destroyed ones whose end the machine still
// waits for.
func (m *Machine) Len() int { return m.live }

// NextMAD takes out the oldest MAD that is to be sent.
func (m *Machine) NextMAD() (MAD, bool) { return m.mads.pop() }

// NextEvent takes out the oldest event. An id that is destroyed has none.
func (m *Machine) NextEvent() (Event, bool) {
	for {
		e, ok := m.events.pop()
		if !ok {
			return Event{}, false
		}
		if e.c.destroyed {
			continue
		}
		if e.Type == EventConnectRequest {
			e.c.delivered = true
		}
		return e.Event, true
	}
}

// NextDeadline is when Poll must be called at the latest, mono.Never if no
// timer runs.
func (m *Machine) NextDeadline() mono.Time {
	if len(m.timers) == 0 {
		return mono.Never
	}
	return m.timers[0].deadline
}

// Poll does what is due: it repeats messages, gives up, ends TIMEWAIT.
func (m *Machine) Poll(now mono.Time) {
	for len(m.timers) > 0 && m.timers[0].deadline <= now {
		c := heap.Pop(&m.timers).(*conn)
		m.expire(now, c)
	}
}

// expire runs the timer of c, which is no longer in the heap.
func (m *Machine) expire(now mono.Time, c *conn) {
	switch c.state {
	case StateREQSent, StateMRAREQRcvd, StateREPSent, StateMRAREPRcvd, StateSIDRREQSent:
		if m.resend(now, c) {
			return
		}
		m.count(CounterTimeouts)
		m.close(c)
		m.report(c, Event{Type: EventUnreachable, Status: StatusTimedOut})
	case StateDREQSent:
		if m.resend(now, c) {
			return
		}
		m.count(CounterTimeouts)
		m.timewait(now, c)
		m.report(c, Event{Type: EventDisconnected})
	case StateTimewait:
		m.report(c, Event{Type: EventTimewaitExit})
		m.close(c)
	case StateIdle, StateListen, StateREPRcvd, StateREQRcvd, StateEstablished, StateDREQRcvd,
		StateSIDRREQRcvd, StateSIDRDone, StateClosed:
		// No timer runs here.
	}
}

// resend repeats the message that c waits for an answer to, until its tries
// are used up. After an MRA the usual rhythm begins again.
func (m *Machine) resend(now mono.Time, c *conn) bool {
	if c.tries == 0 {
		return false
	}
	c.tries--
	m.count(CounterRetries)
	m.emit(&c.path, c.out)
	m.start(c, now.Add(c.interval))
	return true
}

// emit puts a MAD into the queue. A full queue loses it, like a network: what
// matters is repeated, by this end or by the other.
func (m *Machine) emit(path *Path, data *wire.MAD) {
	if m.mads.len() >= m.cfg.MaxQueued {
		m.count(CounterQueueFull)
		return
	}
	m.countTx(data.Attr())
	m.mads.push(MAD{Path: *path, Data: *data})
}

// report puts an event of c into the queue, unless c has nobody to tell.
func (m *Machine) report(c *conn, e Event) {
	if c.destroyed {
		return
	}
	e.ID, e.Owner, e.Local, e.Remote = c.id, c.owner, c.local, c.remote
	m.events.push(pendingEvent{e, c})
}

// pendingEvent is an event that nobody has taken yet.
type pendingEvent struct {
	Event
	c *conn
}
