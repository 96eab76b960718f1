package serve

import (
	"math"

	"github.com/roce-xdp/roce-xdp/internal/cmengine"
	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// kindOf is the port space and type of an id to be.
func kindOf(m *proto.CMCreate) (wire.PortSpace, ibv.QPType, error) {
	if m.PortSpace > math.MaxUint16 || m.Type > math.MaxUint8 {
		return 0, 0, invalid("port space %#x, type %d", m.PortSpace, m.Type)
	}
	return wire.PortSpace(m.PortSpace), ibv.QPType(m.Type), nil
}

func cmCreate(c *connections, _ *request, m *proto.CMCreate) (any, error) {
	id, err := c.create(m)
	return &proto.CMID{ID: uint64(id)}, err
}

func cmSetOptions(c *connections, _ *request, m *proto.CMOptions) (any, error) {
	return nil, c.client.SetOptions(cmfsm.ID(m.ID), m.FSM())
}

func cmBind(c *connections, _ *request, m *proto.CMBind) (any, error) {
	at, err := c.client.Bind(cmfsm.ID(m.ID), m.Addr.Netip())
	if err != nil {
		return nil, err
	}
	rep := proto.AddrPortOf(at)
	return &rep, nil
}

func cmListen(c *connections, _ *request, m *proto.CMListen) (any, error) {
	return nil, c.client.Listen(cmfsm.ID(m.ID), int(min(m.Backlog, math.MaxInt32)))
}

func cmResolve(c *connections, q *request, m *proto.CMResolve) (any, error) {
	ctx, cancel := within(q.ctx, m.WaitNS)
	defer cancel()
	dst := m.Dst.Netip()
	if !dst.IsValid() {
		return nil, invalid("no address to resolve")
	}
	r, err := c.client.Resolve(ctx, cmengine.Query{Src: m.Src.Netip(), Dst: dst, Interface: proto.Text(m.Interface[:]), TOS: m.TOS})
	if err != nil {
		return nil, err
	}
	return &proto.CMResolved{Src: proto.AddrOf(r.Src), Dst: proto.AddrOf(r.Dst), MTU: uint32(r.MTU), HopLimit: r.HopLimit, VLAN: r.VLAN}, nil
}

func cmConnect(c *connections, _ *request, m *proto.CMConnect) (any, error) {
	if err := c.mayName(cmfsm.ID(m.ID), m.Param.QPN, cmfsm.StateIdle); err != nil {
		return nil, err
	}
	route, param := m.Route(), m.Param.FSM()
	return nil, c.client.Connect(cmfsm.ID(m.ID), &route, &param)
}

func cmAccept(c *connections, _ *request, m *proto.CMAccept) (any, error) {
	if err := c.mayName(cmfsm.ID(m.ID), m.Param.QPN, cmfsm.StateREQRcvd, cmfsm.StateREPRcvd, cmfsm.StateSIDRREQRcvd); err != nil {
		return nil, err
	}
	param := m.Param.FSM()
	return nil, c.client.Accept(cmfsm.ID(m.ID), &param)
}

func cmReject(c *connections, _ *request, m *proto.CMReject) (any, error) {
	if m.Reason > math.MaxUint16 || m.PrivateLen > proto.MaxPrivate {
		return nil, invalid("reason %d with %d bytes of private data", m.Reason, m.PrivateLen)
	}
	return nil, c.client.Reject(cmfsm.ID(m.ID), wire.RejReason(m.Reason), m.Private[:m.PrivateLen])
}

func cmEstablished(c *connections, _ *request, m *proto.CMID) (any, error) {
	return nil, c.client.Established(cmfsm.ID(m.ID))
}

func cmDisconnect(c *connections, _ *request, m *proto.CMID) (any, error) {
	return nil, c.client.Disconnect(cmfsm.ID(m.ID))
}

func cmDestroy(c *connections, _ *request, m *proto.CMID) (any, error) {
	return nil, c.destroy(cmfsm.ID(m.ID))
}

func cmQPAttr(c *connections, _ *request, m *proto.CMAccept) (any, error) {
	param := m.Param.FSM()
	a, err := c.client.QPAttr(cmfsm.ID(m.ID), &param)
	if err != nil {
		return nil, err
	}
	return &proto.CMQPAttrReply{Attr: proto.QPAttrOf(&a.QPAttr), LocalGID: a.LocalGID, VLAN: a.VLAN, Scope: a.Scope}, nil
}

func cmInfo(c *connections, _ *request, m *proto.CMID) (any, error) {
	i, err := c.client.Info(cmfsm.ID(m.ID))
	if err != nil {
		return nil, err
	}
	rep := proto.InfoOf(&i)
	return &rep, nil
}

// cmQPNHeld tells about the client's own queue pairs; of others it says nothing.
func cmQPNHeld(c *connections, _ *request, m *proto.CMQPN) (any, error) {
	return &proto.CMHeld{Held: proto.Bool(c.res.numbers.own(m.QPN) && c.client.QPNHeld(m.QPN))}, nil
}

func cmCounters(c *connections, _ *request, m *proto.Page) (any, error) {
	all, err := c.client.Counters()
	if err != nil {
		return nil, err
	}
	return countersReply(all, m.First), nil
}
