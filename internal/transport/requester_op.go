package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// reqKind groups the operations of a send queue by how they are cut into packets
// and what completes them.
type reqKind uint8

const (
	kindNone        reqKind = iota // not an operation of an RC send queue
	kindSend                       // SEND of any kind: completed by an ACK
	kindWrite                      // RDMA WRITE of any kind: completed by an ACK
	kindRead                       // RDMA READ: completed by its last response
	kindAtomic                     // COMPARE_SWAP, FETCH_ADD: completed by an ATOMIC_ACKNOWLEDGE
	kindAtomicWrite                // ATOMIC_WRITE: completed by an empty READ_RESPONSE_ONLY
	kindFlush                      // FLUSH: completed by an empty READ_RESPONSE_ONLY
)

var reqKindNames = [...]string{"NONE", "SEND", "RDMA_WRITE", "RDMA_READ", "ATOMIC", "ATOMIC_WRITE", "FLUSH"}

// String is the kind in the specification's spelling.
func (k reqKind) String() string {
	if int(k) < len(reqKindNames) {
		return reqKindNames[k]
	}
	return "unknown operation"
}

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

// sendOps has the operations of an RC send queue, indexed by ibv.WROpcode. The
// others have the kind kindNone.
var sendOps = buildSendOps()

func buildSendOps() (t [16]sendOp) {
	set := func(op ibv.WROpcode, kind reqKind, wc ibv.WCOpcode, first, middle, last, only wire.Opcode) {
		t[op] = sendOp{kind: kind, wc: wc}
		t[op].packet[wire.First] = (wire.RC | first).Info()
		t[op].packet[wire.Middle] = (wire.RC | middle).Info()
		t[op].packet[wire.Last] = (wire.RC | last).Info()
		t[op].packet[wire.Only] = (wire.RC | only).Info()
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
	return t
}

// sendOpOf is the entry of op; the zero sendOp when there is none.
func sendOpOf(op ibv.WROpcode) *sendOp {
	if int(op) < len(sendOps) {
		return &sendOps[op]
	}
	return &noSendOp
}

var noSendOp sendOp
