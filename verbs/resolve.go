package verbs

import (
	"context"
	"errors"
	"net/netip"
)

// Why a peer cannot be reached; test with errors.Is. The messages say what to do.
var (
	// ErrNoRoute: the host has no route to the peer, or none that the device can use.
	ErrNoRoute = errors.New("no route to the peer")
	// ErrNoNeighbour: nobody answered for the peer's or the gateway's address.
	ErrNoNeighbour = errors.New("no answer from the next hop")
	// ErrNoDevice: no interface, or one that cannot carry RoCE, or a link-local
	// address that does not say on which.
	ErrNoDevice = errors.New("no interface for it")
	// ErrNoSource: the host has no such address, or none that can be the source.
	ErrNoSource = errors.New("no source address")
)

// ResolveRequest asks how a peer is reached.
type ResolveRequest struct {
	// Dst is the peer's address. A zone names the interface, as Interface does; in
	// Context.Resolve a link-local address needs none.
	Dst netip.Addr
	// Src is the own address to send from; the zero Addr: what the kernel prefers.
	Src netip.Addr
	// Interface is the name or number of the interface to leave by: the device's, or
	// one on top of it. Empty: any.
	Interface string
	// TOS is the IPv4 type of service or IPv6 traffic class, by which policy rules may
	// choose a route. Its ECN bits do not count.
	TOS uint8
}

// Resolution is how a peer is reached. Two are equal (==) when nothing differs.
type Resolution struct {
	Dst   netip.Addr // without zone
	Src   netip.Addr // without zone
	Local bool       // Dst is an address of the device, or of this host: no frame leaves it
	// SGIDIndex is the index of Src in the device's GID table; -1 where no device
	// was asked.
	SGIDIndex int

	Interface string // that has Src, and that packets leave by
	IfIndex   int
	Device    string // whose frames they are: Interface, or what it is on top of
	VLAN      uint16 // 0: frames are untagged

	NextHop   netip.Addr // Dst, or the gateway
	Table     int        // of the route, as `ip route show table`; 0: unknown
	DstMAC    [6]byte    // of the next hop, or group; zero: not known yet
	SrcMAC    [6]byte
	Neighbour string // state of the entry, as `ip neighbour` names it; empty: there is none

	LinkMTU  int   // bytes, of Interface
	PathMTU  int   // bytes, of the route, at most LinkMTU
	MTU      MTU   // the largest for which 96 bytes of headers fit PathMTU too (as rdma_cm has it); 0: none
	HopLimit uint8 // of the route, else 64
}

// Gateway reports whether another host forwards what goes to the peer.
func (r *Resolution) Gateway() bool { return r.NextHop.IsValid() && r.NextHop != r.Dst }

// Resolve finds out how the device reaches a peer, where the device is. It waits
// for the next hop to answer, until ctx ends, at most 3 s if ctx has no deadline;
// it sends nothing for an address of the device itself, as which a loopback
// address counts. Errors: ErrInvalid, ErrNoDevice, ErrNoSource, ErrNoRoute,
// ErrNoNeighbour, ErrClosed, that of ctx when it is cancelled.
//
// With ErrNoNeighbour the result has all but the link-layer address of the next hop, where
// more of the way is known.
func (c *Context) Resolve(ctx context.Context, req *ResolveRequest) (Resolution, error) {
	if req == nil || !req.Dst.IsValid() {
		return Resolution{}, opErr("resolve", c.Name(), invalid("no address"))
	}
	if err := c.alive(); err != nil {
		return Resolution{}, opErr("resolve "+req.Dst.String(), c.Name(), err)
	}
	res, err := c.p.Resolve(ctx, req)
	return res, opErr("resolve "+req.Dst.String(), c.Name(), err)
}
