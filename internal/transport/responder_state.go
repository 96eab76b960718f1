package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// respState is a step in the life of a request packet at the responder. Every
// step is one function that returns the next.
type respState uint8

// Steps. The checks are in the order in which their failures take precedence.
const (
	respChkPSN      respState = iota // past, expected or after a gap
	respChkOpSeq                     // opcode follows the previous one
	respChkOpValid                   // the queue pair grants the operation
	respChkXRCETH                    // XRC: the shared receive queue that the request names
	respChkResource                  // a receive work request, a place for a result
	respChkLength                    // packet and message lengths
	respChkRKey                      // key, domain, rights and range of the memory
	respExecute                      // place payload
	respReadReply                    // queue a READ's responses
	respAtomicReply                  // execute an atomic and queue its response
	respInvalidate                   // invalidate the key of a SEND with invalidate
	respComplete                     // complete the receive work request
	respAcknowledge                  // owe an ACKNOWLEDGE
	respDuplicate                    // answer again, execute nothing
	respOutOfOrder                   // owe a sequence NAK, keep the packet if there is room
	respChkSync                      // UC: continues the message in progress or starts one
	respChkDatagram                  // UD: Q_Key, a receive work request, room for GRH and payload
	respDatagram                     // UD: place GRH and payload
	respInitiator                    // XRC: an initiator takes no requests

	respErrOpSeq         // opcode out of sequence
	respErrAccessFlags   // operation not granted by the queue pair
	respErrTooManyRDAtom // more READs and atomics than agreed
	respErrXRCETH        // no shared receive queue of that number in the domain
	respErrRNR           // no receive work request
	respErrMalformedWQE  // receive work request that cannot be
	respErrLKey          // receive work request with a bad key or range
	respErrLength        // wrong packet or message length
	respErrBufferSize    // SEND longer than the receive work request
	respErrRKey          // remote key, domain, rights or range
	respErrMisaligned    // atomic at an address that is not a multiple of 8
	respErrOperational   // the memory cannot do what was asked
	respErrInvalidate    // key that cannot be invalidated
	respErrCorrupt       // the receive queue's indices make no sense

	respDone

	numRespStates
)

var respStateNames = [numRespStates]string{
	"CHK_PSN", "CHK_OP_SEQ", "CHK_OP_VALID", "CHK_XRCETH", "CHK_RESOURCE", "CHK_LENGTH", "CHK_RKEY",
	"EXECUTE", "READ_REPLY", "ATOMIC_REPLY", "INVALIDATE", "COMPLETE", "ACKNOWLEDGE",
	"DUPLICATE_REQUEST", "OUT_OF_ORDER", "CHK_SYNC", "CHK_DATAGRAM", "DATAGRAM", "INITIATOR",
	"ERR_MISSING_OPCODE", "ERR_UNSUPPORTED_OPCODE", "ERR_TOO_MANY_RDMA_ATM_REQ", "ERR_INVALID_XRCETH", "ERR_RNR", "ERR_MALFORMED_WQE",
	"ERR_LKEY_VIOLATION", "ERR_LENGTH", "ERR_BUFFER_SIZE", "ERR_RKEY_VIOLATION", "ERR_MISALIGNED_ATOMIC",
	"ERR_OPERATIONAL", "ERR_INVALIDATE_RKEY", "ERR_CORRUPT_QUEUE", "DONE",
}

// String is the state's name in traces.
func (s respState) String() string {
	if s < numRespStates {
		return respStateNames[s]
	}
	return "UNKNOWN"
}

// respPacket is a request packet on its way through the states.
type respPacket struct {
	now     mono.Time
	p       *wire.Packet
	psn     psn.PSN
	need    ibv.Access     // rights that the operation needs
	region  *memory.Region // remote memory of the operation, nil when it has no bytes
	fresh   bool           // the receive work request was taken by this packet
	verdict Verdict
}

func (x *respPacket) bth() *wire.BTH { return wire.BTHAt(x.p.BTH) }

// respHandle runs a request packet, and after it the kept packets that were
// waiting for it.
func (q *QP) respHandle(now mono.Time, p *wire.Packet) Verdict {
	x := respPacket{now: now, p: p, psn: psnOf(p)}
	q.respRun(&x)
	for q.resp.kept.count > 0 {
		next := q.takeKept(&q.resp.kept, q.resp.st.ePSN)
		if next == nil {
			q.respNextGap(now)
			break
		}
		k := respPacket{now: now, p: next, psn: psnOf(next)}
		q.respRun(&k)
	}
	return x.verdict
}

func (q *QP) respRun(x *respPacket) {
	for s := q.resp.begin; s != respDone; {
		s = q.respStep(s, x)
	}
}

func (q *QP) respStep(s respState, x *respPacket) respState {
	switch s {
	case respChkPSN:
		return q.respCheckPSN(x)
	case respChkOpSeq:
		return q.respCheckOpSeq(x)
	case respChkOpValid:
		return q.respCheckOpValid(x)
	case respChkXRCETH:
		return q.respCheckXRCETH(x)
	case respChkResource:
		return q.respCheckResource(x)
	case respChkLength:
		return q.respCheckLength(x)
	case respChkRKey:
		return q.respCheckRKey(x)
	case respExecute:
		return q.respDoExecute(x)
	case respReadReply:
		return q.respDoRead(x)
	case respAtomicReply:
		return q.respDoAtomic(x)
	case respInvalidate:
		return q.respDoInvalidate(x)
	case respComplete:
		return q.respDoComplete(x)
	case respAcknowledge:
		return q.respDoAcknowledge(x)
	case respDuplicate:
		return q.respDoDuplicate(x)
	case respOutOfOrder:
		return q.respDoOutOfOrder(x)
	case respChkSync:
		return q.respCheckSync(x)
	case respChkDatagram:
		return q.respCheckDatagram(x)
	case respDatagram:
		return q.respDoDatagram(x)
	case respInitiator:
		q.env.count(DropOpcode)
		return respDone
	case respErrOpSeq, respErrAccessFlags, respErrTooManyRDAtom, respErrXRCETH, respErrRNR, respErrMalformedWQE, respErrLKey, respErrLength,
		respErrBufferSize, respErrRKey, respErrMisaligned, respErrOperational, respErrInvalidate, respErrCorrupt:
		if q.oneWay() {
			return q.respRefuse(s, x)
		}
		return q.respAnswerError(s, x)
	case respDone, numRespStates:
	}
	return respDone
}
