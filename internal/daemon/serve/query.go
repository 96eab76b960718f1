package serve

import (
	"context"
	"errors"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/verbs"
)

func queryDevice(r *resources, _ *request, _ *proto.Empty) (any, error) {
	a, err := r.ns.QueryDevice()
	if err != nil {
		return nil, err
	}
	rep := deviceAttrOf(&a)
	// What the device could have is more than what this client may.
	l := r.limits
	for _, f := range []struct {
		v   *uint32
		max int
	}{{&rep.MaxQP, l.QPs}, {&rep.MaxCQ, l.CQs}, {&rep.MaxSRQ, l.SRQs}, {&rep.MaxMR, l.MRs}, {&rep.MaxMW, l.MRs}, {&rep.MaxPD, l.PDs}, {&rep.MaxAH, l.AHs}, {&rep.MaxXRCD, l.XRCDs}, {&rep.MaxMcastGrp, l.Groups}, {&rep.MaxMcastTotal, l.Groups}} {
		*f.v = min(*f.v, uint32(f.max))
	}
	rep.MaxMRSize = min(rep.MaxMRSize, l.Registered)
	return rep, nil
}

func queryPort(r *resources, _ *request, _ *proto.Empty) (any, error) {
	a, err := r.ns.QueryPort()
	if err != nil {
		return nil, err
	}
	rep := &proto.PortAttr{
		State: uint32(a.State), MaxMTU: uint32(a.MaxMTU), ActiveMTU: uint32(a.ActiveMTU), LinkMTU: uint32(a.LinkMTU),
		GIDTableLen: uint32(a.GIDTableLen), PKeyTableLen: uint32(a.PKeyTableLen), MaxMsgSize: a.MaxMsgSize,
		SpeedMbps: uint32(a.SpeedMbps), ActiveSpeed: uint32(a.ActiveSpeed), ActiveWidth: uint32(a.ActiveWidth),
		BadPKeyCntr: a.BadPKeyCntr, QKeyViolCntr: a.QKeyViolCntr, IfIndex: uint32(a.IfIndex), NetNS: a.NetNS,
	}
	rep.MACLen = uint32(copy(rep.MAC[:], a.MAC))
	return rep, nil
}

func queryClock(r *resources, _ *request, _ *proto.Empty) (any, error) {
	c, err := r.ns.QueryClock()
	if err != nil {
		return nil, err
	}
	return &proto.Clock{RawNS: c.Raw, WallSec: c.Wall.Unix(), WallNSec: uint32(c.Wall.Nanosecond())}, nil
}

func queryGIDs(r *resources, _ *request, m *proto.Page) (any, error) {
	all, err := r.ns.GIDs()
	if err != nil {
		return nil, err
	}
	rep := &proto.GIDsReply{Total: uint32(len(all))}
	for _, g := range page(all, m.First, len(rep.Entry)) {
		rep.Entry[rep.Count] = proto.GIDEntry{GID: g.GID, Index: uint32(g.Index), IfIndex: uint32(g.IfIndex), VLAN: g.VLAN, Valid: proto.Bool(g.Valid)}
		rep.Count++
	}
	return rep, nil
}

func counters(r *resources, _ *request, m *proto.Page) (any, error) {
	all, err := r.ns.Counters()
	if err != nil {
		return nil, err
	}
	return countersReply(all, m.First), nil
}

func countersReply(all []verbs.CounterValue, first uint32) *proto.CountersReply {
	rep := &proto.CountersReply{Total: uint32(len(all))}
	for _, c := range page(all, first, len(rep.Entry)) {
		e := &rep.Entry[rep.Count]
		e.Value = c.Value
		proto.PutText(e.Name[:], c.Name)
		rep.Count++
	}
	return rep
}

// within is ctx that ends after ns nanoseconds, if that is not 0.
func within(ctx context.Context, ns uint64) (context.Context, context.CancelFunc) {
	if ns == 0 {
		return ctx, func() {}
	}
	const longest = uint64(time.Hour)
	return context.WithTimeout(ctx, time.Duration(min(ns, longest)))
}

func resolve(r *resources, q *request, m *proto.Resolve) (any, error) {
	dst := m.Dst.Netip()
	if !dst.IsValid() {
		return nil, invalid("no address to resolve")
	}
	ctx, cancel := within(q.ctx, m.WaitNS)
	defer cancel()
	res, err := r.ns.Resolve(ctx, &verbs.ResolveRequest{Dst: dst, Src: m.Src.Netip(), Interface: proto.Text(m.Interface[:]), TOS: m.TOS})
	partial := m.Partial != 0 && res.Interface != "" && errors.Is(err, verbs.ErrNoNeighbour) && !errors.Is(err, context.Canceled)
	if err != nil && !partial {
		return nil, err
	}
	rep := &proto.Resolution{
		Dst: proto.AddrOf(res.Dst), Src: proto.AddrOf(res.Src), NextHop: proto.AddrOf(res.NextHop), SGIDIndex: int32(res.SGIDIndex),
		IfIndex: uint32(res.IfIndex), Table: uint32(res.Table), LinkMTU: uint32(res.LinkMTU), PathMTU: uint32(res.PathMTU), MTU: uint32(res.MTU),
		VLAN: res.VLAN, Local: proto.Bool(res.Local), HopLimit: res.HopLimit, DstMAC: res.DstMAC, SrcMAC: res.SrcMAC,
	}
	proto.PutText(rep.Interface[:], res.Interface)
	proto.PutText(rep.Device[:], res.Device)
	proto.PutText(rep.Neighbour[:], res.Neighbour)
	return rep, nil
}
