package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// reqKind groups the operations of a send queue by how they are cut into packets
// and what completes them.
type reqKind uint8

const (
	kindNone        reqKind = iota // not an operation of the send queue
	kindBind                       // BIND_MW: executed here, has no packets
	kindInvalidate                 // LOCAL_INV: executed here, has no packets
	kindRegister                   // REG_MR: executed here, has no packets
	kindSend                       // SEND of any kind: completed by an ACK, if there are any
	kindWrite                      // RDMA WRITE of any kind: completed by an ACK, if there are any
	kindRead                       // RDMA READ: completed by its last response
	kindAtomic                     // COMPARE_SWAP, FETCH_ADD: completed by an ATOMIC_ACKNOWLEDGE
	kindAtomicWrite                // ATOMIC_WRITE: completed by an empty READ_RESPONSE_ONLY
	kindFlush                      // FLUSH: completed by an empty READ_RESPONSE_ONLY
)

var reqKindNames = [...]string{"NONE", "BIND_MW", "LOCAL_INV", "REG_MR", "SEND", "RDMA_WRITE", "RDMA_READ", "ATOMIC", "ATOMIC_WRITE", "FLUSH"}

// String is the kind in the specification's spelling.
func (k reqKind) String() string {
	if int(k) < len(reqKindNames) {
		return reqKindNames[k]
	}
	return "unknown operation"
}

// local reports whether k is an operation on keys, which sends nothing.
func (k reqKind) local() bool { return k >= kindBind && k <= kindRegister }

// answered reports whether an ACK does not complete k: the responder returns
// something else, for which it keeps resources that max_rd_atomic counts.
func (k reqKind) answered() bool { return k >= kindRead }

// scatters reports whether the response of k writes local memory.
func (k reqKind) scatters() bool { return k == kindRead || k == kindAtomic }

// sendOp is what the requester knows of one work request opcode.
type sendOp struct {
	kind   reqKind
	wc     ibv.WCOpcode
	packet [4]*wire.OpInfo // request packets by wire.Position
}

// sendOps has the operations of a send queue of one transport service, indexed
// by ibv.WROpcode. What the service lacks has the kind kindNone.
type sendOps [ibv.WRRegMR + 1]sendOp

var (
	rcOps  = buildSendOps(wire.RC)
	ucOps  = buildSendOps(wire.UC)
	udOps  = buildSendOps(wire.UD)
	xrcOps = buildSendOps(wire.XRC)
	noOps  sendOps
)

// sendOpsOf has the operations of a transport prefix.
func sendOpsOf(service wire.Opcode) *sendOps {
	switch service {
	case wire.RC:
		return &rcOps
	case wire.UC:
		return &ucOps
	case wire.UD:
		return &udOps
	case wire.XRC:
		return &xrcOps
	default:
		return &noOps
	}
}

func buildSendOps(service wire.Opcode) (t sendOps) {
	set := func(op ibv.WROpcode, kind reqKind, wc ibv.WCOpcode, first, middle, last, only wire.Opcode) {
		info := func(o wire.Opcode) *wire.OpInfo { return (service | o).Info() }
		// A service has an operation when it has the packet that can be all of it.
		if info(only) == nil {
			return
		}
		t[op] = sendOp{kind: kind, wc: wc}
		t[op].packet[wire.First] = info(first)
		t[op].packet[wire.Middle] = info(middle)
		t[op].packet[wire.Last] = info(last)
		t[op].packet[wire.Only] = info(only)
	}
	// An operation of one request packet has the same opcode in all positions.
	single := func(op ibv.WROpcode, kind reqKind, wc ibv.WCOpcode, only wire.Opcode) {
		set(op, kind, wc, only, only, only, only)
	}
	set(ibv.WRSend, kindSend, ibv.WCSend, wire.SendFirst, wire.SendMiddle, wire.SendLast, wire.SendOnly)
	set(ibv.WRSendWithImm, kindSend, ibv.WCSend, wire.SendFirst, wire.SendMiddle, wire.SendLastImm, wire.SendOnlyImm)
	set(ibv.WRSendWithInv, kindSend, ibv.WCSend, wire.SendFirst, wire.SendMiddle, wire.SendLastInv, wire.SendOnlyInv)
	set(ibv.WRRDMAWrite, kindWrite, ibv.WCRDMAWrite, wire.WriteFirst, wire.WriteMiddle, wire.WriteLast, wire.WriteOnly)
	set(ibv.WRRDMAWriteWithImm, kindWrite, ibv.WCRDMAWrite, wire.WriteFirst, wire.WriteMiddle, wire.WriteLastImm, wire.WriteOnlyImm)
	single(ibv.WRRDMARead, kindRead, ibv.WCRDMARead, wire.ReadRequest)
	single(ibv.WRAtomicCmpAndSwp, kindAtomic, ibv.WCCompSwap, wire.CompareSwap)
	single(ibv.WRAtomicFetchAdd, kindAtomic, ibv.WCFetchAdd, wire.FetchAdd)
	single(ibv.WRAtomicWrite, kindAtomicWrite, ibv.WCAtomicWrite, wire.AtomicWrite)
	single(ibv.WRFlush, kindFlush, ibv.WCFlush, wire.Flush)
	if service != wire.UD { // which has no remote memory (IBTA vol. 1, 10.8.1)
		t[ibv.WRBindMW] = sendOp{kind: kindBind, wc: ibv.WCBindMW}
		t[ibv.WRLocalInv] = sendOp{kind: kindInvalidate, wc: ibv.WCLocalInv}
		t[ibv.WRRegMR] = sendOp{kind: kindRegister, wc: ibv.WCRegMR}
	}
	return t
}

// of is the entry of op; one with the kind kindNone when there is none.
func (t *sendOps) of(op ibv.WROpcode) *sendOp {
	if int(op) < len(t) {
		return &t[op]
	}
	return &noOps[0]
}
