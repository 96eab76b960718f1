package cmfsm

import (
	"net/netip"
	"strconv"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// EventType is what happened (rdma_cm_event_type, same numbers). The machine
// makes those about connections; the others are for who resolves addresses
// and watches devices and groups.
type EventType uint8

// Events.
const (
	EventAddrResolved     EventType = 0
	EventAddrError        EventType = 1
	EventRouteResolved    EventType = 2
	EventRouteError       EventType = 3
	EventConnectRequest   EventType = 4
	EventConnectResponse  EventType = 5
	EventConnectError     EventType = 6
	EventUnreachable      EventType = 7
	EventRejected         EventType = 8
	EventEstablished      EventType = 9
	EventDisconnected     EventType = 10
	EventDeviceRemoval    EventType = 11
	EventMulticastJoin    EventType = 12
	EventMulticastError   EventType = 13
	EventAddrChange       EventType = 14
	EventTimewaitExit     EventType = 15
	EventAddrInfoResolved EventType = 16
	EventAddrInfoError    EventType = 17
	EventUser             EventType = 18
	EventInternal         EventType = 19
	numEventTypes         EventType = 20
)

var eventNames = [numEventTypes]string{
	"ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST", "CONNECT_RESPONSE", "CONNECT_ERROR",
	"UNREACHABLE", "REJECTED", "ESTABLISHED", "DISCONNECTED", "DEVICE_REMOVAL", "MULTICAST_JOIN", "MULTICAST_ERROR",
	"ADDR_CHANGE", "TIMEWAIT_EXIT", "ADDRINFO_RESOLVED", "ADDRINFO_ERROR", "USER", "INTERNAL",
}

func (e EventType) String() string {
	if e < numEventTypes {
		return eventNames[e]
	}
	return "EVENT(" + strconv.Itoa(int(e)) + ")"
}

// StatusTimedOut is the status of UNREACHABLE when no answer came: a negative
// ETIMEDOUT, as rdma_cm has it.
const StatusTimedOut = -110

// Event is something that an application is to be told about an id.
type Event struct {
	Type     EventType
	ID       ID
	Owner    Owner
	Listener ID // CONNECT_REQUEST: who was asked; ID is new

	// Status is 0, StatusTimedOut, in REJECTED a wire.RejReason, in UNREACHABLE of
	// a UD id perhaps a wire.SIDRStatus.
	Status int

	// Param is what the peer offers, seen from this side, in CONNECT_REQUEST and
	// CONNECT_RESPONSE: ResponderResources is what it will ask us to serve,
	// InitiatorDepth what it serves us, QPN is its queue pair. A UD id's
	// ESTABLISHED has QPN and QKey. PrivateData has its full size, since the
	// length is not transmitted: 56 bytes (CONNECT_REQUEST), 196
	// (CONNECT_RESPONSE), 148 (REJECTED); 180 and 136 (ESTABLISHED) for UD. It is
	// the receiver's to keep.
	Param ConnParam

	Local, Remote netip.AddrPort // of ID

	// AV is the path to the peer's queue pair in a UD id's ESTABLISHED. SGIDIndex
	// is left to the caller: the index of Local's address.
	AV ibv.AddressVector
}
