package verbs

import (
	"context"
	"errors"
	"math"
	"net"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/session"
)

// small is n as an int, on 32-bit machines too.
func small(n uint32) int { return int(min(n, math.MaxInt32)) }

func (d *remote) QueryDevice() (DeviceAttr, error) {
	var r proto.DeviceAttr
	if err := d.do(proto.OpQueryDevice, &proto.Empty{}, &r); err != nil {
		return DeviceAttr{}, err
	}
	return DeviceAttr{
		Name: proto.Text(r.Name[:]), FWVersion: proto.Text(r.FWVersion[:]), XDPMode: proto.Text(r.XDPMode[:]),
		NodeGUID: r.NodeGUID, SysImageGUID: r.SysImageGUID, VendorID: r.VendorID, HWVersion: r.HWVersion,
		MaxMRSize: r.MaxMRSize, MaxQP: small(r.MaxQP), MaxQPWR: small(r.MaxQPWR), MaxSGE: small(r.MaxSGE), MaxInline: small(r.MaxInline),
		MaxCQ: small(r.MaxCQ), MaxCQE: small(r.MaxCQE), MaxSRQ: small(r.MaxSRQ), MaxSRQWR: small(r.MaxSRQWR), MaxSRQSGE: small(r.MaxSRQSGE),
		MaxXRCD: small(r.MaxXRCD), MaxMR: small(r.MaxMR), MaxMW: small(r.MaxMW), MaxAH: small(r.MaxAH), MaxPD: small(r.MaxPD),
		MaxMcastGrp: small(r.MaxMcastGrp), MaxMcastQP: small(r.MaxMcastQP), MaxMcastTotal: small(r.MaxMcastTotal),
		MaxQPRDAtom: small(r.MaxQPRDAtom), MaxQPInitRDAtm: small(r.MaxQPInitRDAtom),
		AtomicGlobal: r.AtomicGlobal != 0, NumPorts: small(r.NumPorts), NumWorkers: small(r.NumWorkers), ZeroCopy: r.ZeroCopy != 0,
		Caps: DeviceCap(r.Caps), LocalCAAckDelay: r.LocalCAAckDelay,
		MaxCQCount: small(r.MaxCQCount), MaxCQPeriod: time.Duration(min(r.MaxCQPeriodNS, math.MaxInt64)),
		CompletionTimestampMask: r.CompletionTimestampMask, HCACoreClockKHz: r.HCACoreClockKHz,
		ODP: ODPCaps{Supported: r.ODPSupported != 0, Implicit: r.ODPImplicit != 0, RC: ODPCap(r.ODPRC), UC: ODPCap(r.ODPUC), UD: ODPCap(r.ODPUD)},
	}, nil
}

func (d *remote) QueryPort() (PortAttr, error) {
	var r proto.PortAttr
	if err := d.do(proto.OpQueryPort, &proto.Empty{}, &r); err != nil {
		return PortAttr{}, err
	}
	return PortAttr{
		State: PortState(min(r.State, math.MaxUint8)), MaxMTU: MTU(min(r.MaxMTU, math.MaxUint8)), ActiveMTU: MTU(min(r.ActiveMTU, math.MaxUint8)),
		LinkMTU: small(r.LinkMTU), GIDTableLen: small(r.GIDTableLen), PKeyTableLen: small(r.PKeyTableLen), MaxMsgSize: r.MaxMsgSize,
		SpeedMbps: small(r.SpeedMbps), ActiveSpeed: small(r.ActiveSpeed), ActiveWidth: small(r.ActiveWidth),
		BadPKeyCntr: r.BadPKeyCntr, QKeyViolCntr: r.QKeyViolCntr, IfIndex: small(r.IfIndex), NetNS: r.NetNS,
		MAC: net.HardwareAddr(append([]byte(nil), r.MAC[:min(r.MACLen, uint32(len(r.MAC)))]...)),
	}, nil
}

func (d *remote) QueryClock() (Clock, error) {
	var r proto.Clock
	if err := d.do(proto.OpQueryClock, &proto.Empty{}, &r); err != nil {
		return Clock{}, err
	}
	return Clock{Raw: r.RawNS, Wall: time.Unix(r.WallSec, int64(r.WallNSec))}, nil
}

func (d *remote) GIDs() ([]GIDEntry, error) {
	entries, err := session.List(context.Background(), d.s, proto.OpQueryGIDs, func(r *proto.GIDsReply) (uint32, uint32, []proto.GIDEntry) {
		return r.Total, r.Count, r.Entry[:]
	})
	if err != nil {
		return nil, fromDaemon(err)
	}
	all := make([]GIDEntry, len(entries))
	for i, e := range entries {
		all[i] = GIDEntry{Index: small(e.Index), GID: e.GID, Valid: e.Valid != 0, VLAN: e.VLAN, IfIndex: small(e.IfIndex)}
	}
	return all, nil
}

func (d *remote) Counters() ([]CounterValue, error) {
	entries, err := session.List(context.Background(), d.s, proto.OpCounters, func(r *proto.CountersReply) (uint32, uint32, []proto.Counter) {
		return r.Total, r.Count, r.Entry[:]
	})
	if err != nil {
		return nil, fromDaemon(err)
	}
	all := make([]CounterValue, len(entries))
	for i := range entries {
		all[i] = CounterValue{Name: proto.Text(entries[i].Name[:]), Value: entries[i].Value}
	}
	return all, nil
}

// Resolve has the daemon find the way. It gives up when ctx does; until then the
// daemon's answer counts, which says what is missing.
func (d *remote) Resolve(ctx context.Context, req *ResolveRequest) (Resolution, error) {
	if err := ctx.Err(); err != nil {
		return Resolution{}, err
	}
	m := &proto.Resolve{Dst: proto.AddrOf(req.Dst), Src: proto.AddrOf(req.Src), TOS: req.TOS}
	iface, err := proto.ZoneName(req.Interface, req.Dst, req.Src)
	if err != nil {
		return Resolution{}, invalid("%v", err)
	}
	proto.PutText(m.Interface[:], iface)
	m.WaitNS = session.WaitNS(ctx)
	var r proto.Resolution
	err = d.wait(ctx, proto.OpResolve, m, &r)
	if err == nil {
		return resolutionOf(&r), nil
	}
	if !errors.Is(err, ErrNoNeighbour) {
		return Resolution{}, err
	}
	// The way as far as it is known is told without waiting again.
	m.WaitNS, m.Partial = 1, 1
	if d.s.Do(proto.OpResolve, m, &r) != nil {
		return Resolution{}, err // what was said first counts
	}
	return resolutionOf(&r), err
}

func resolutionOf(r *proto.Resolution) Resolution {
	return Resolution{
		Dst: r.Dst.Netip(), Src: r.Src.Netip(), Local: r.Local != 0, SGIDIndex: int(r.SGIDIndex),
		Interface: proto.Text(r.Interface[:]), IfIndex: small(r.IfIndex), Device: proto.Text(r.Device[:]), VLAN: r.VLAN,
		NextHop: r.NextHop.Netip(), Table: small(r.Table), DstMAC: r.DstMAC, SrcMAC: r.SrcMAC, Neighbour: proto.Text(r.Neighbour[:]),
		LinkMTU: small(r.LinkMTU), PathMTU: small(r.PathMTU), MTU: ibv.MTU(min(r.MTU, math.MaxUint8)), HopLimit: r.HopLimit,
	}
}
