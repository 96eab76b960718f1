package proto

import (
	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// MaxPrivate is how much private data a record of a connection has at most.
const MaxPrivate = 224

// CMID names an id of the connection manager.
type CMID struct {
	ID uint64
}

// CMCreate asks for an id.
type CMCreate struct {
	PortSpace uint32 // RDMA_PS_*
	Type      uint32 // of its queue pairs
}

// CMOptions are cmfsm.Options.
type CMOptions struct {
	ID          uint64
	ReuseAddr   uint8
	AFOnly      uint8
	TOS         uint8
	AckTimeout  uint8
	MinRNRTimer uint8
	Pad         [3]uint8
}

// CMBind binds an id; the reply is the address as bound.
type CMBind struct {
	ID   uint64
	Addr AddrPort
}

// CMListen has an id listen.
type CMListen struct {
	ID      uint64
	Backlog uint32
	Pad     uint32
}

// CMResolve asks for the way to a destination.
type CMResolve struct {
	Src, Dst  Addr
	Interface [Name]byte // zone of either, if that is a name
	WaitNS    uint64     // 0: as long as the device does
	TOS       uint8
	Pad       [7]uint8
}

// CMResolved is the way.
type CMResolved struct {
	Src, Dst Addr
	MTU      uint32 // as ibv_mtu
	HopLimit uint8
	Pad      uint8
	VLAN     uint16
}

// CMParam is cmfsm.ConnParam.
type CMParam struct {
	QPN                uint32
	QKey               uint32
	ResponderResources uint8
	InitiatorDepth     uint8
	FlowControl        uint8
	RetryCount         uint8
	RNRRetryCount      uint8
	SRQ                uint8
	PrivateLen         uint16
	Private            [MaxPrivate]byte
}

// CMConnect connects an id along a route (cmfsm.Route).
type CMConnect struct {
	ID            uint64
	Local, Remote AddrPort
	FlowLabel     uint32
	MTU           uint8
	HopLimit      uint8
	SL            uint8
	PacketLife    uint8
	VLAN          uint16
	Pad           [6]uint8
	Param         CMParam
}

// CMAccept accepts a request; CMQPAttr has the same form.
type CMAccept struct {
	ID    uint64
	Param CMParam
}

// CMReject rejects a request.
type CMReject struct {
	ID         uint64
	Reason     uint32
	PrivateLen uint32
	Private    [MaxPrivate]byte
}

// CMQPAttrReply is cmfsm.QPAttr.
type CMQPAttrReply struct {
	Attr     QPAttr
	LocalGID [16]byte
	Scope    uint32 // index of the interface that LocalGID is of; 0: any
	VLAN     uint16
	Pad      [2]uint8
}

// CMInfo is cmfsm.Info.
type CMInfo struct {
	Local, Remote AddrPort
	State         uint32
	PortSpace     uint32
	Type          uint32
	QPN, PeerQPN  uint32
	Pad           uint32
}

// CMQPN names a queue pair number.
type CMQPN struct {
	QPN uint32
	Pad uint32
}

// CMHeld says whether a number is held.
type CMHeld struct {
	Held uint8
	Pad  [7]uint8
}

// CMEvent is cmfsm.Event: a packet on the socket of OpCMOpen.
type CMEvent struct {
	ID            uint64
	Listener      uint64
	Type          uint32
	Status        int32
	Local, Remote AddrPort
	AV            AddressVector
	Param         CMParam
}

// CMParamOf is p as it travels. It is false if the private data is too long.
func CMParamOf(p *cmfsm.ConnParam) (out CMParam, ok bool) {
	if p == nil {
		return out, true
	}
	if len(p.PrivateData) > MaxPrivate {
		return out, false
	}
	out = CMParam{
		QPN: p.QPN, QKey: p.QKey, ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth, FlowControl: Bool(p.FlowControl),
		RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount, SRQ: Bool(p.SRQ), PrivateLen: uint16(len(p.PrivateData)),
	}
	copy(out.Private[:], p.PrivateData)
	return out, true
}

// FSM is the parameter as the machine has it; a length that cannot be is cut.
func (p *CMParam) FSM() cmfsm.ConnParam {
	out := cmfsm.ConnParam{
		QPN: p.QPN, QKey: p.QKey, ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth, FlowControl: p.FlowControl != 0,
		RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount, SRQ: p.SRQ != 0,
	}
	if n := min(int(p.PrivateLen), MaxPrivate); n > 0 {
		out.PrivateData = append([]byte(nil), p.Private[:n]...)
	}
	return out
}

// Route is the route of a CMConnect.
func (c *CMConnect) Route() cmfsm.Route {
	return cmfsm.Route{
		Local: c.Local.Netip(), Remote: c.Remote.Netip(), MTU: ibv.MTU(c.MTU), HopLimit: c.HopLimit, SL: c.SL,
		FlowLabel: c.FlowLabel, PacketLife: c.PacketLife, VLAN: c.VLAN,
	}
}

// SetRoute is the reverse of Route.
func (c *CMConnect) SetRoute(r *cmfsm.Route) {
	c.Local, c.Remote, c.MTU, c.HopLimit, c.SL = AddrPortOf(r.Local), AddrPortOf(r.Remote), uint8(r.MTU), r.HopLimit, r.SL
	c.FlowLabel, c.PacketLife, c.VLAN = r.FlowLabel, r.PacketLife, r.VLAN
}

// OptionsOf are o of an id as they travel.
func OptionsOf(id cmfsm.ID, o cmfsm.Options) CMOptions {
	return CMOptions{ID: uint64(id), ReuseAddr: Bool(o.ReuseAddr), AFOnly: Bool(o.AFOnly), TOS: o.TOS, AckTimeout: o.AckTimeout, MinRNRTimer: o.MinRNRTimer}
}

// FSM is the options as the machine has them.
func (o *CMOptions) FSM() cmfsm.Options {
	return cmfsm.Options{ReuseAddr: o.ReuseAddr != 0, AFOnly: o.AFOnly != 0, TOS: o.TOS, AckTimeout: o.AckTimeout, MinRNRTimer: o.MinRNRTimer}
}

// InfoOf is i as it travels.
func InfoOf(i *cmfsm.Info) CMInfo {
	return CMInfo{
		Local: AddrPortOf(i.Local), Remote: AddrPortOf(i.Remote), State: uint32(i.State), PortSpace: uint32(i.PortSpace), Type: uint32(i.Type),
		QPN: i.QPN, PeerQPN: i.PeerQPN,
	}
}

// FSM is the information as the machine has it, without the owner.
func (i *CMInfo) FSM() cmfsm.Info {
	return cmfsm.Info{
		Local: i.Local.Netip(), Remote: i.Remote.Netip(), State: cmfsm.State(i.State), PortSpace: wire.PortSpace(i.PortSpace), Type: ibv.QPType(clamp8(i.Type)),
		QPN: i.QPN, PeerQPN: i.PeerQPN,
	}
}

// CMEventOf is e as it travels, without the owner. It is false if the private data
// is too long.
func CMEventOf(e *cmfsm.Event) (out CMEvent, ok bool) {
	out = CMEvent{
		ID: uint64(e.ID), Listener: uint64(e.Listener), Type: uint32(e.Type), Status: int32(e.Status),
		Local: AddrPortOf(e.Local), Remote: AddrPortOf(e.Remote), AV: AVOf(&e.AV),
	}
	out.Param, ok = CMParamOf(&e.Param)
	return out, ok
}

// FSM is the event as the machine has it, without the owner.
func (e *CMEvent) FSM() cmfsm.Event {
	return cmfsm.Event{
		ID: cmfsm.ID(e.ID), Listener: cmfsm.ID(e.Listener), Type: cmfsm.EventType(e.Type), Status: int(e.Status), Param: e.Param.FSM(),
		Local: e.Local.Netip(), Remote: e.Remote.Netip(), AV: e.AV.IBV(),
	}
}
