package serve

import (
	"math"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// deviceAttrOf is a as it travels.
func deviceAttrOf(a *verbs.DeviceAttr) *proto.DeviceAttr {
	n := func(v int) uint32 { return uint32(min(max(v, 0), math.MaxInt32)) }
	d := &proto.DeviceAttr{
		NodeGUID: a.NodeGUID, SysImageGUID: a.SysImageGUID, MaxMRSize: a.MaxMRSize, Caps: uint64(a.Caps), MaxCQPeriodNS: uint64(a.MaxCQPeriod),
		CompletionTimestampMask: a.CompletionTimestampMask, HCACoreClockKHz: a.HCACoreClockKHz, VendorID: a.VendorID, HWVersion: a.HWVersion,
		MaxQP: n(a.MaxQP), MaxQPWR: n(a.MaxQPWR), MaxSGE: n(a.MaxSGE), MaxInline: n(a.MaxInline), MaxCQ: n(a.MaxCQ), MaxCQE: n(a.MaxCQE),
		MaxSRQ: n(a.MaxSRQ), MaxSRQWR: n(a.MaxSRQWR), MaxSRQSGE: n(a.MaxSRQSGE), MaxXRCD: n(a.MaxXRCD), MaxMR: n(a.MaxMR), MaxMW: n(a.MaxMW),
		MaxAH: n(a.MaxAH), MaxPD: n(a.MaxPD), MaxMcastGrp: n(a.MaxMcastGrp), MaxMcastQP: n(a.MaxMcastQP), MaxMcastTotal: n(a.MaxMcastTotal),
		MaxQPRDAtom: n(a.MaxQPRDAtom), MaxQPInitRDAtom: n(a.MaxQPInitRDAtm), NumPorts: n(a.NumPorts), NumWorkers: n(a.NumWorkers),
		MaxCQCount: n(a.MaxCQCount), ODPRC: uint32(a.ODP.RC), ODPUC: uint32(a.ODP.UC), ODPUD: uint32(a.ODP.UD),
		LocalCAAckDelay: a.LocalCAAckDelay, AtomicGlobal: proto.Bool(a.AtomicGlobal), ZeroCopy: proto.Bool(a.ZeroCopy),
		ODPSupported: proto.Bool(a.ODP.Supported), ODPImplicit: proto.Bool(a.ODP.Implicit),
	}
	proto.PutText(d.Name[:], a.Name)
	proto.PutText(d.FWVersion[:], a.FWVersion)
	proto.PutText(d.XDPMode[:], a.XDPMode)
	return d
}
