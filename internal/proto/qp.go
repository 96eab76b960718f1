package proto

import "github.com/roce-xdp/roce-xdp/internal/ibv"

// QPCap are the capacities of a queue pair (ibv_qp_cap).
type QPCap struct {
	MaxSendWR  uint32
	MaxRecvWR  uint32
	MaxSendSGE uint32
	MaxRecvSGE uint32
	MaxInline  uint32
	Pad        uint32
}

// CreateQP asks for a queue pair.
type CreateQP struct {
	SendCQ, RecvCQ uint64 // handles, 0: none
	SRQ            uint64 // handle, 0: a receive queue of its own
	Context        uint64
	PD             uint32
	XRCD           uint32
	Cap            QPCap
	Type           uint8
	SigAll         uint8
	Congestion     uint8
	Pad            [5]uint8
}

// QPReply is a queue pair. SQ or RQ of size 0: it has none.
type QPReply struct {
	Handle uint64
	SQ, RQ Span
	QPN    uint32
	Worker uint32 // whose doorbells
	Slot   uint32 // which of them
	Pad    uint32
	Cap    QPCap // as made
}

// OpenQP opens a target of an XRC domain that somebody else has made.
type OpenQP struct {
	XRCD uint32
	QPN  uint32
}

// AddressVector is the path to a peer (ibv_ah_attr).
type AddressVector struct {
	DGID         [16]byte
	FlowLabel    uint32
	SGIDIndex    uint32
	HopLimit     uint8
	TrafficClass uint8
	SL           uint8
	Port         uint8
	Pad          [4]uint8
}

// QPAttr are the attributes of a queue pair (ibv_qp_attr).
type QPAttr struct {
	AV               AddressVector
	Cap              QPCap
	State            uint32
	CurState         uint32
	PathMTU          uint32
	QKey             uint32
	RQPSN            uint32
	SQPSN            uint32
	DestQPN          uint32
	AccessFlags      uint32
	PKeyIndex        uint16
	EnSQDAsyncNotify uint8
	SQDraining       uint8
	MaxRDAtomic      uint8
	MaxDestRDAtomic  uint8
	MinRNRTimer      uint8
	Port             uint8
	Timeout          uint8
	RetryCnt         uint8
	RNRRetry         uint8
	Pad              [5]uint8
}

// ModifyQP sets the attributes that Mask names. With those of a path it waits for the
// next hop to answer, which OpCancel ends.
type ModifyQP struct {
	Handle uint64
	WaitNS uint64 // how long to wait for the next hop; 0: as long as the device does
	Attr   QPAttr
	Mask   uint32
	Pad    uint32
}

// Mcast attaches a queue pair to a multicast group, or detaches it.
type Mcast struct {
	Handle uint64
	Group  [16]byte
}

// CreateAH asks for an address handle. It waits as ModifyQP does.
type CreateAH struct {
	AV     AddressVector
	WaitNS uint64 // how long to wait for the next hop; 0: as long as the device does
	PD     uint32
	Pad    uint32
}

// AH names an address handle: reply of CreateAH, request of DestroyAH.
type AH struct {
	AH  uint32
	Pad uint32
}

// QPCapOf is c as it travels. Negative numbers are refused before.
func QPCapOf(c ibv.QPCap) QPCap {
	return QPCap{
		MaxSendWR: uint32(c.MaxSendWR), MaxRecvWR: uint32(c.MaxRecvWR), MaxSendSGE: uint32(c.MaxSendSGE),
		MaxRecvSGE: uint32(c.MaxRecvSGE), MaxInline: uint32(c.MaxInline),
	}
}

// IBV is c as verbs has it; no number is negative.
func (c QPCap) IBV() ibv.QPCap {
	return ibv.QPCap{
		MaxSendWR: number(c.MaxSendWR), MaxRecvWR: number(c.MaxRecvWR), MaxSendSGE: number(c.MaxSendSGE),
		MaxRecvSGE: number(c.MaxRecvSGE), MaxInline: number(c.MaxInline),
	}
}

// number is n as an int, on 32-bit machines too.
func number(n uint32) int { return int(min(n, 1<<31-1)) }

// AVOf is av as it travels.
func AVOf(av *ibv.AddressVector) AddressVector {
	return AddressVector{
		DGID: av.DGID, FlowLabel: av.FlowLabel, SGIDIndex: uint32(av.SGIDIndex), HopLimit: av.HopLimit,
		TrafficClass: av.TrafficClass, SL: av.SL, Port: av.Port,
	}
}

// IBV is the path as verbs has it.
func (v *AddressVector) IBV() ibv.AddressVector {
	return ibv.AddressVector{
		DGID: v.DGID, FlowLabel: v.FlowLabel, SGIDIndex: number(v.SGIDIndex), HopLimit: v.HopLimit,
		TrafficClass: v.TrafficClass, SL: v.SL, Port: v.Port,
	}
}

// QPAttrOf is a as it travels.
func QPAttrOf(a *ibv.QPAttr) QPAttr {
	return QPAttr{
		AV: AVOf(&a.AV), Cap: QPCapOf(a.Cap), State: uint32(a.State), CurState: uint32(a.CurState), PathMTU: uint32(a.PathMTU),
		QKey: a.QKey, RQPSN: a.RQPSN, SQPSN: a.SQPSN, DestQPN: a.DestQPN, AccessFlags: uint32(a.AccessFlags), PKeyIndex: a.PKeyIndex,
		EnSQDAsyncNotify: Bool(a.EnSQDAsyncNotify), SQDraining: Bool(a.SQDraining), MaxRDAtomic: a.MaxRDAtomic, MaxDestRDAtomic: a.MaxDestRDAtomic,
		MinRNRTimer: a.MinRNRTimer, Port: a.Port, Timeout: a.Timeout, RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry,
	}
}

// IBV is the attributes as verbs has them. A number that its type cannot hold becomes
// one that no attribute may have.
func (a *QPAttr) IBV() ibv.QPAttr {
	return ibv.QPAttr{
		AV: a.AV.IBV(), Cap: a.Cap.IBV(), State: ibv.QPState(clamp8(a.State)), CurState: ibv.QPState(clamp8(a.CurState)), PathMTU: ibv.MTU(clamp8(a.PathMTU)),
		QKey: a.QKey, RQPSN: a.RQPSN, SQPSN: a.SQPSN, DestQPN: a.DestQPN, AccessFlags: ibv.Access(a.AccessFlags), PKeyIndex: a.PKeyIndex,
		EnSQDAsyncNotify: a.EnSQDAsyncNotify != 0, SQDraining: a.SQDraining != 0, MaxRDAtomic: a.MaxRDAtomic, MaxDestRDAtomic: a.MaxDestRDAtomic,
		MinRNRTimer: a.MinRNRTimer, Port: a.Port, Timeout: a.Timeout, RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry,
	}
}

func clamp8(n uint32) uint8 { return uint8(min(n, 255)) }
