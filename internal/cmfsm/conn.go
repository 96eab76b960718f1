package cmfsm

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// conn is what is behind an id: a listener, a connection, or a question of UD.
type conn struct {
	id    ID
	owner Owner
	ps    wire.PortSpace
	typ   ibv.QPType
	state State
	opt   Options

	local, remote netip.AddrPort
	bound         bool // has an entry in Machine.ports
	ephemeral     bool // which the machine chose

	backlog  int     // of a listener
	pending  []*conn // its requests that nobody has decided yet
	listener *conn   // whose pending this one is in

	delivered bool // its CONNECT_REQUEST has been taken
	destroyed bool // the application has forgotten it: no more events
	held      bool // counts in Machine.held

	passive       bool
	path          Path
	hopLimit      uint8
	commID        uint32 // ours; of UD the request id of client or peer
	peerCommID    uint32
	refusedCommID uint32 // the peer's, of a REP that came for a stale connection
	peerGUID      uint64
	inComm        bool   // this one is in Machine.comm,
	inPeerComm    bool   // in Machine.peerComm,
	inPeerQPN     bool   // in Machine.peerQPN,
	inQuestions   bool   // in Machine.questions
	tid           uint64 // of our REQ, DREQ, SIDR_REQ
	peerTID       uint64 // of the peer's REQ or SIDR_REQ,
	dreqTID       uint64 // and DREQ
	qpn, peerQPN  uint32
	serviceID     wire.ServiceID
	mtu           ibv.MTU
	packetLife    uint8 // exponent
	ackTimeout    uint8 // of our queue pair, exponent
	rqPSN, sqPSN  psn.PSN
	responder     uint8 // READs and atomics served: ours
	initiator     uint8 // READs and atomics outstanding: ours
	retryCount    uint8
	rnrRetryCount uint8 // of our queue pair
	flowLabel     uint32

	// The message that is repeated, and how.
	out      *wire.MAD
	interval time.Duration
	tries    uint8 // how often it may still be
	maxTries uint8 // and may at first

	deadline mono.Time
	timer    int // index in Machine.timers, -1 when it does not run
}

// newConn makes an id of owner.
func (m *Machine) newConn(owner Owner, ps wire.PortSpace, typ ibv.QPType) (*conn, error) {
	if m.live >= m.cfg.MaxIDs || m.owned[owner] >= m.cfg.MaxOwnerIDs {
		return nil, ErrTooManyIDs
	}
	m.lastID++
	m.live++
	m.owned[owner]++
	c := &conn{id: m.lastID, owner: owner, ps: ps, typ: typ, timer: -1}
	m.ids[c.id] = c
	return c, nil
}

// Create makes an id for queue pairs of a type: RC with PortSpaceTCP, UD with
// PortSpaceUDP and PortSpaceIPoIB, RC, UC or UD with PortSpaceIB.
func (m *Machine) Create(owner Owner, ps wire.PortSpace, typ ibv.QPType) (ID, error) {
	ok := false
	switch ps {
	case wire.PortSpaceTCP:
		ok = typ == ibv.QPTypeRC
	case wire.PortSpaceUDP, wire.PortSpaceIPoIB:
		ok = typ == ibv.QPTypeUD
	case wire.PortSpaceIB:
		ok = typ == ibv.QPTypeRC || typ == ibv.QPTypeUC || typ == ibv.QPTypeUD
	}
	if !ok {
		return 0, fmt.Errorf("%w: port space %v has no queue pairs of type %v", ErrInvalid, ps, typ)
	}
	c, err := m.newConn(owner, ps, typ)
	if err != nil {
		return 0, err
	}
	return c.id, nil
}

// find is the id for a call, which may be made in the given states only.
func (m *Machine) find(id ID, states ...State) (*conn, error) {
	c := m.ids[id]
	if c == nil {
		return nil, ErrUnknownID
	}
	for _, s := range states {
		if c.state == s {
			return c, nil
		}
	}
	if len(states) == 0 {
		return c, nil
	}
	return nil, fmt.Errorf("%w: it is in %v", ErrState, c.state)
}

// SetOptions replaces the options of an id, before Listen or Connect; ReuseAddr
// counts from the next Bind on.
func (m *Machine) SetOptions(id ID, o Options) error {
	c, err := m.find(id, StateIdle, StateREQRcvd, StateSIDRREQRcvd)
	if err != nil {
		return err
	}
	if o.AckTimeout > 31 || o.MinRNRTimer > 31 {
		return fmt.Errorf("%w: AckTimeout and MinRNRTimer go to 31", ErrInvalid)
	}
	c.opt = o
	return nil
}

// Info says what an id looks like.
func (m *Machine) Info(id ID) (Info, error) {
	c, err := m.find(id)
	if err != nil {
		return Info{}, err
	}
	return Info{
		Owner: c.owner, State: c.state, PortSpace: c.ps, Type: c.typ,
		Local: c.local, Remote: c.remote, QPN: c.qpn, PeerQPN: c.peerQPN,
	}, nil
}

// newCommID gives c a communication id that no other has. Zero is none.
func (m *Machine) newCommID(c *conn) {
	for c.commID == 0 || m.comm[c.commID] != nil {
		c.commID = m.rand.Uint32()
	}
	m.comm[c.commID] = c
	c.inComm = true
	c.tid = m.rand.Uint64()
}

// setPeer notes who the peer of c is; its keys must be free.
func (m *Machine) setPeer(c *conn, guid uint64, commID, qpn uint32) {
	c.peerGUID, c.peerCommID, c.peerQPN = guid, commID, qpn
	m.peerComm[peerComm{c.path.Remote, guid, commID}] = c
	m.peerQPN[peerQPN{c.path.Remote, guid, qpn}] = c
	c.inPeerComm, c.inPeerQPN = true, true
}

// forgetPeerQPN lets the peer use its queue pair anew.
func (m *Machine) forgetPeerQPN(c *conn) {
	if c.inPeerQPN {
		delete(m.peerQPN, peerQPN{c.path.Remote, c.peerGUID, c.peerQPN})
		c.inPeerQPN = false
	}
}

// forgetPeerComm lets the peer use its communication id anew.
func (m *Machine) forgetPeerComm(c *conn) {
	if c.inPeerComm {
		delete(m.peerComm, peerComm{c.path.Remote, c.peerGUID, c.peerCommID})
		c.inPeerComm = false
	}
}

// close ends what c does on the network. Its id remains until Destroy.
func (m *Machine) close(c *conn) {
	m.stop(c)
	m.forgetPeerQPN(c)
	m.forgetPeerComm(c)
	if c.inComm {
		delete(m.comm, c.commID)
		c.inComm = false
	}
	if c.inQuestions {
		delete(m.questions, c.question())
		c.inQuestions = false
	}
	m.release(c)
	c.out = nil
	c.state = StateClosed
	if c.destroyed {
		m.live--
		if m.owned[c.owner]--; m.owned[c.owner] == 0 {
			delete(m.owned, c.owner)
		}
	}
}

// hold keeps the queue pair's number of c from being used again.
func (m *Machine) hold(c *conn) {
	if !c.held && c.qpn != 0 {
		c.held = true
		m.held[c.qpn]++
	}
}

func (m *Machine) release(c *conn) {
	if !c.held {
		return
	}
	c.held = false
	if m.held[c.qpn]--; m.held[c.qpn] == 0 {
		delete(m.held, c.qpn)
	}
}

// QPNHeld says whether a connection of that queue pair is in TIMEWAIT, or
// destroyed and not yet over: packets of it may still be on their way, so the
// number should not be given to another queue pair yet (IBTA vol. 1, 12.9.8).
func (m *Machine) QPNHeld(qpn uint32) bool { return m.held[qpn] > 0 }
