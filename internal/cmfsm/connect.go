package cmfsm

import (
	"fmt"
	"net/netip"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Connect asks the peer at r.Remote for a connection, or, of a UD id, for its
// queue pair. An id connects once.
func (m *Machine) Connect(now mono.Time, id ID, r *Route, p *ConnParam) error {
	c, err := m.find(id, StateIdle)
	if err != nil {
		return err
	}
	if err := m.checkConnect(c, r, p); err != nil {
		return err
	}
	local := plain(r.Local)
	if !c.bound {
		if err := m.bind(c, local); err != nil {
			return err
		}
	}
	// Bound to all addresses, it now has the one that the route begins at.
	c.local = netip.AddrPortFrom(local.Addr(), c.local.Port())
	c.remote = netip.AddrPortFrom(facing(local.Addr(), r.Remote.Addr()), r.Remote.Port())
	c.flowLabel = r.FlowLabel & 0xFFFFF
	if c.local.Addr().Is4() || c.flowLabel == 0 {
		c.flowLabel = wire.FlowLabelFromPorts(c.local.Port(), c.remote.Port())
	}
	c.hopLimit = or(r.HopLimit, DefaultHopLimit)
	c.path = Path{
		Local: c.local.Addr(), Remote: c.remote.Addr(), TrafficClass: c.opt.TOS, HopLimit: c.hopLimit, SL: r.SL,
		VLAN: r.VLAN,
	}
	if c.local.Addr().Is6() {
		c.path.FlowLabel = c.flowLabel
	}
	c.serviceID = wire.ServiceIDOf(c.ps, c.remote.Port())
	c.tries, c.maxTries = m.cfg.MaxRetries, m.cfg.MaxRetries
	m.newCommID(c)
	if c.typ == ibv.QPTypeUD {
		m.sendSIDRREQ(now, c, p)
		return nil
	}
	m.sendREQ(now, c, r, p)
	return nil
}

func (m *Machine) checkConnect(c *conn, r *Route, p *ConnParam) error {
	local, remote := plain(r.Local), plain(r.Remote)
	switch {
	case !unicast(local.Addr()) || !unicast(remote.Addr()) || local.Addr().Is4() != remote.Addr().Is4():
		return fmt.Errorf("%w: a route needs two unicast addresses of one family, not %v and %v", ErrInvalid, r.Local, r.Remote)
	case remote.Port() == 0:
		return fmt.Errorf("%w: the route has no destination port", ErrInvalid)
	case c.bound && c.local.Addr() != local.Addr() && !covers(c.local.Addr(), c.opt.AFOnly, local.Addr()):
		return fmt.Errorf("%w: the id is bound to %v, the route begins at %v", ErrInvalid, c.local, r.Local)
	case c.bound && local.Port() != 0 && local.Port() != c.local.Port():
		return fmt.Errorf("%w: the id is bound to port %d, the route has %d", ErrInvalid, c.local.Port(), local.Port())
	case r.PacketLife > 30 || r.SL > 7:
		return fmt.Errorf("%w: PacketLife goes to 30, SL to 7", ErrInvalid)
	}
	if c.typ == ibv.QPTypeUD {
		return checkPrivate(p.PrivateData, MaxSIDRREQPrivate)
	}
	if !r.MTU.Valid() {
		return fmt.Errorf("%w: %d is no path MTU", ErrInvalid, r.MTU)
	}
	if err := m.checkParam(p); err != nil {
		return err
	}
	return checkPrivate(p.PrivateData, MaxREQPrivate)
}

// checkParam checks what Connect and Accept have in common.
func (m *Machine) checkParam(p *ConnParam) error {
	switch {
	case p.QPN == 0 || p.QPN > psn.Mask:
		return fmt.Errorf("%w: QPN %#x", ErrInvalid, p.QPN)
	case p.ResponderResources != MaxResources && p.ResponderResources > m.cfg.MaxResponderResources:
		return fmt.Errorf("%w: %d responder resources, the device has %d", ErrInvalid, p.ResponderResources, m.cfg.MaxResponderResources)
	case p.InitiatorDepth != MaxResources && p.InitiatorDepth > m.cfg.MaxInitiatorDepth:
		return fmt.Errorf("%w: initiator depth %d, the device has %d", ErrInvalid, p.InitiatorDepth, m.cfg.MaxInitiatorDepth)
	}
	return nil
}

func checkPrivate(b []byte, room int) error {
	if len(b) > room {
		return fmt.Errorf("%w: %d bytes, there is room for %d", ErrPrivateData, len(b), room)
	}
	return nil
}

func unicast(a netip.Addr) bool {
	return a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// cma puts the header with the addresses of c in front of private data.
func (c *conn) cma(private []byte) []byte {
	b := make([]byte, wire.CMALen, wire.CMALen+len(private))
	wire.CMAAt(b).Encode(&wire.CMAFields{SrcPort: c.local.Port(), Src: c.local.Addr(), Dst: c.remote.Addr()})
	return append(b, private...)
}

func (m *Machine) sendREQ(now mono.Time, c *conn, r *Route, p *ConnParam) {
	c.packetLife = or(r.PacketLife, DefaultPacketLife)
	if c.opt.AckTimeout != 0 {
		c.packetLife = c.opt.AckTimeout - 1
	}
	c.ackTimeout = ackTimeoutOf(m.cfg.AckDelay, c.packetLife)
	c.mtu = r.MTU
	c.qpn = p.QPN
	c.rqPSN = m.newPSN()
	c.responder = min(p.ResponderResources, m.cfg.MaxResponderResources)
	c.initiator = min(p.InitiatorDepth, m.cfg.MaxInitiatorDepth)
	c.retryCount = min(p.RetryCount, 7)

	transport := wire.TransportRC
	if c.typ == ibv.QPTypeUC {
		transport = wire.TransportUC
	}
	primary := wire.CMPathFields{
		LocalGID: ibv.GIDOf(c.local.Addr()), RemoteGID: ibv.GIDOf(c.remote.Addr()), FlowLabel: c.flowLabel,
		TrafficClass: c.opt.TOS, HopLimit: c.hopLimit, SL: r.SL, SubnetLocal: c.hopLimit <= 1, LocalACKTimeout: c.ackTimeout,
	}
	if !primary.SubnetLocal {
		primary.LocalLID, primary.RemoteLID = 0xFFFF, 0xFFFF
	}
	m.newMessage(c, c.tid, wire.AttrREQ)
	wire.REQAt(c.out.Data()).Encode(&wire.REQFields{
		LocalCommID: c.commID, ServiceID: c.serviceID, LocalCAGUID: m.cfg.GUID, LocalQPN: c.qpn,
		ResponderResources: c.responder, InitiatorDepth: c.initiator, TransportType: transport, FlowControl: p.FlowControl,
		RemoteResponseTimeout: m.cfg.ResponseTimeout, LocalResponseTimeout: m.cfg.ResponseTimeout, MaxCMRetries: m.cfg.MaxRetries,
		StartingPSN: c.rqPSN, RetryCount: c.retryCount, RNRRetryCount: min(p.RNRRetryCount, 7), PKey: wire.DefaultPKey,
		PathMTU: c.mtu, SRQ: p.SRQ, Primary: primary, PrivateData: c.cma(p.PrivateData),
	})
	c.interval = 2*cmTime(c.packetLife) + cmTime(m.cfg.ResponseTimeout)
	c.state = StateREQSent
	m.emit(&c.path, c.out)
	m.start(c, now.Add(c.interval))
}

// newMessage makes the message that c repeats.
func (m *Machine) newMessage(c *conn, tid uint64, attr wire.CMAttr) {
	c.out = new(wire.MAD)
	c.out.EncodeCM(tid, attr)
}

func (m *Machine) newPSN() psn.PSN { return psn.Of(m.rand.Uint32()) }
