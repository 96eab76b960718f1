package cmengine

import (
	"context"
	"net/netip"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Service is the connection manager of a device.
type Service interface {
	// Open makes a client. Its sink is called for each event, one at a time and in
	// order; it must not block and make no call to the client. An event of the
	// device, EventDeviceRemoval or EventAddrChange, has no id: the former is the
	// last, the latter says in Local which address is gone.
	Open(sink func(cmfsm.Event)) (Client, error)
}

// Client is a user of a connection manager. The calls are those of
// [cmfsm.Machine], with its errors and verbs.ErrClosed.
type Client interface {
	Create(ps wire.PortSpace, typ ibv.QPType) (cmfsm.ID, error)
	SetOptions(id cmfsm.ID, o cmfsm.Options) error
	// Bind takes zones that are indices of interfaces, as those that it answers with.
	Bind(id cmfsm.ID, addr netip.AddrPort) (netip.AddrPort, error)
	Listen(id cmfsm.ID, backlog int) error
	// Resolve finds how the device reaches a destination, as verbs.Context.Resolve
	// does, with its errors.
	Resolve(ctx context.Context, q Query) (Resolved, error)
	Connect(id cmfsm.ID, r *cmfsm.Route, p *cmfsm.ConnParam) error
	Accept(id cmfsm.ID, p *cmfsm.ConnParam) error
	Reject(id cmfsm.ID, why wire.RejReason, private []byte) error
	Established(id cmfsm.ID) error
	Disconnect(id cmfsm.ID) error
	Destroy(id cmfsm.ID) error
	QPAttr(id cmfsm.ID, p *cmfsm.ConnParam) (cmfsm.QPAttr, error)
	Info(id cmfsm.ID) (cmfsm.Info, error)
	// QPNHeld says whether packets of a connection that has ended may still be on
	// their way to a queue pair of this number.
	QPNHeld(qpn uint32) bool
	// Counters are those of the device's connection manager, all clients together.
	Counters() ([]verbs.CounterValue, error)
	// Close ends the client with all its ids, as Destroy does. No event comes after it.
	Close() error
}

// Query says what to resolve. Zones are names or indices of interfaces where the device
// is, as Interface.
type Query struct {
	Src       netip.Addr // own address; not valid or unspecified: any that fits
	Dst       netip.Addr
	Interface string // to leave by, as the zone of an address names it too; empty: any
	TOS       uint8
}

// Resolved is a way to a destination.
type Resolved struct {
	Src, Dst netip.Addr // IPv4 not mapped; link-local ones have the index of the interface as zone
	MTU      ibv.MTU    // path MTU
	HopLimit uint8
	VLAN     uint16 // of Src; 0: none
}

// Provider is implemented by a verbs.Provider whose connection manager is
// elsewhere: in the daemon that owns the device.
type Provider interface {
	ConnectionManager() Service
}

// Of is the connection manager of a device: the provider's, that of the daemon that
// the provider has a session with, or one that runs in this process.
func Of(dev *verbs.Context) Service {
	switch p := dev.Provider().(type) {
	case Provider:
		return p.ConnectionManager()
	case interface{ Session() *session.Session }:
		return &remote{p.Session()}
	}
	return local{dev}
}
