package cm

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// PortSpace is a space of port numbers (rdma_port_space).
type PortSpace = wire.PortSpace

// Port spaces.
const (
	PortSpaceTCP   = wire.PortSpaceTCP   // queue pairs of type RC
	PortSpaceUDP   = wire.PortSpaceUDP   // UD: a server tells its queue pair's number and Q_Key
	PortSpaceIPoIB = wire.PortSpaceIPoIB // UD
)

// EventType is what happened (rdma_cm_event_type).
type EventType = cmfsm.EventType

// Events.
const (
	EventAddrResolved    = cmfsm.EventAddrResolved    // ResolveAddr has found the device and address
	EventAddrError       = cmfsm.EventAddrError       // it has not
	EventRouteResolved   = cmfsm.EventRouteResolved   // ResolveRoute has found the path: Connect may come
	EventRouteError      = cmfsm.EventRouteError      // it has not
	EventConnectRequest  = cmfsm.EventConnectRequest  // a peer asks; ID is new, Listener was asked
	EventConnectResponse = cmfsm.EventConnectResponse // the peer has accepted, and the id has no queue pair of CreateQP: Establish
	EventConnectError    = cmfsm.EventConnectError    // the queue pair could not be connected
	EventUnreachable     = cmfsm.EventUnreachable     // nobody answered, or of UD, the answer was no
	EventRejected        = cmfsm.EventRejected        // the peer said no
	EventEstablished     = cmfsm.EventEstablished     // connected; of UD, the peer's queue pair is known
	EventDisconnected    = cmfsm.EventDisconnected    // it is over; a passive end agrees by Disconnect
	EventDeviceRemoval   = cmfsm.EventDeviceRemoval   // the device is gone: only Destroy is left
	EventMulticastJoin   = cmfsm.EventMulticastJoin   // JoinMulticast has joined
	EventMulticastError  = cmfsm.EventMulticastError  // it could not
	EventAddrChange      = cmfsm.EventAddrChange      // the id's own address is gone
	EventTimewaitExit    = cmfsm.EventTimewaitExit    // no packet of the connection is on its way any more
)

// ConnParam is what an end of a connection offers (rdma_conn_param).
type ConnParam struct {
	PrivateData []byte
	// ResponderResources is how many READs and atomics of the peer this end serves at
	// a time, InitiatorDepth how many it has outstanding, at most verbs.MaxRDAtomic, or
	// MaxResources for as many as both can. In events they are as this end may use them.
	ResponderResources, InitiatorDepth uint8
	FlowControl                        bool  // informational
	RetryCount                         uint8 // at most 7, only Connect's counts
	RNRRetryCount                      uint8 // of the peer, at most 7
	// SRQ and QPN are those of the queue pair, for an id without CreateQP.
	SRQ  bool
	QPN  uint32
	QKey uint32 // UD: 0 is DefaultQKey
}

// MaxResources stands for as many READs and atomics as both ends can.
const MaxResources = cmfsm.MaxResources

// DefaultQKey is that of UD ids and of multicast groups (RDMA_UDP_QKEY).
const DefaultQKey = cmfsm.DefaultQKey

// Event is something that happened to an id (rdma_cm_event). There is nothing to
// acknowledge.
type Event struct {
	Type     EventType
	ID       *ID
	Listener *ID // CONNECT_REQUEST: who was asked

	// Err is nil, or why it failed: RejectedError, ErrNoAnswer, ErrNoListener,
	// errors of resolution and of verbs.
	Err error
	// Status is 0; -110 with ErrNoAnswer; the RejectReason of REJECTED; the status of
	// UNREACHABLE of UD (1: nobody listens, 2: the application said no).
	Status int

	// Param is what the peer offers, with its queue pair's number in QPN, in
	// CONNECT_REQUEST, CONNECT_RESPONSE and the ESTABLISHED that stands for it; with QKey in a UD id's ESTABLISHED and in
	// MULTICAST_JOIN. PrivateData has its full size, zeros at its end.
	Param ConnParam
	// AV leads to that queue pair, or group: for verbs.PD.CreateAH.
	AV verbs.AddressVector
}

// String is "REJECTED: rejected by the peer: ...".
func (e *Event) String() string {
	if e.Err != nil {
		return fmt.Sprintf("%v: %v", e.Type, e.Err)
	}
	return e.Type.String()
}

func (p *ConnParam) internal() cmfsm.ConnParam {
	if p == nil {
		return cmfsm.ConnParam{}
	}
	return cmfsm.ConnParam(*p)
}

// errOf is what an event says that failed.
func errOf(ev *cmfsm.Event, typ verbs.QPType) error {
	switch {
	case ev.Type == cmfsm.EventRejected:
		return rejected(ev)
	case ev.Type == cmfsm.EventDeviceRemoval:
		return ErrRemoved
	case ev.Type != cmfsm.EventUnreachable:
		return nil
	case typ != verbs.UD || ev.Status == cmfsm.StatusTimedOut:
		return noAnswer("requests")
	case ev.Status == int(wire.SIDRUnsupported):
		return fmt.Errorf("%w: %w", ErrRejected, ErrNoListener)
	}
	return fmt.Errorf("%w: %v", ErrRejected, wire.SIDRStatus(ev.Status))
}
