package verbs

import "fmt"

// WC is a work completion (ibv_wc). Of a failed one only WRID, Status, VendorErr,
// QPNum, Timestamp and QPContext are meaningful. RoCE has no local identifiers:
// slid and dlid_path_bits, which would always be 0, are left out.
type WC struct {
	WRID      uint64
	Status    WCStatus
	Opcode    WCOpcode
	Flags     WCFlags
	PKeyIndex uint16 // 0: the P_Key table has one entry
	SL        uint8  // UD: service level, the priority of the datagram's VLAN tag; 0 when it came without
	VLAN      uint16 // UD: of the datagram's VLAN tag; 0 when it came without, or the driver took it off
	ByteLen   uint32 // bytes received or read; with WCGRH, GRHLen bytes more than the payload
	Imm       uint32 // with WCWithImm: immediate data; with WCWithInv: the invalidated key
	QPNum     uint32 // of the local queue pair
	SrcQP     uint32 // UD: of the sender
	VendorErr uint32
	Timestamp int64  // nanoseconds of the device's clock when the request completed; see Context.QueryClock
	QPContext uint64 // QPInitAttr.Context
}

// CompletionError is the failure of a work request.
type CompletionError struct {
	Status WCStatus
	WRID   uint64
	QPNum  uint32
}

// Error gives the status and what usually causes it.
func (e *CompletionError) Error() string {
	return fmt.Sprintf("work request %d of qp %#x: %s: %s", e.WRID, e.QPNum, e.Status, statusHelp(e.Status))
}

// Err is nil for a success, else a *CompletionError.
func (w *WC) Err() error {
	if w.Status == WCSuccess {
		return nil
	}
	return &CompletionError{Status: w.Status, WRID: w.WRID, QPNum: w.QPNum}
}

func statusHelp(s WCStatus) string {
	switch s {
	case WCLocalLength:
		return "the message is longer than the buffer, than the queue pair allows, or, as a datagram, than the port's active MTU"
	case WCLocalQPOperation:
		return "the work request does not fit the queue pair: check opcode, lengths, capacities and address handle; or a key cannot be invalidated or registered"
	case WCLocalProtection:
		return "a scatter/gather entry lies outside its memory region, has a wrong lkey, another protection domain, or no LOCAL_WRITE"
	case WCFlushed:
		return "the queue pair is in error; the first failed completion says why"
	case WCMWBind:
		return "the memory window was not bound: the region needs MW_BIND, and LOCAL_WRITE for windows that can write, and must hold the range; a window of type 2 must be free, and the tag of its key must change"
	case WCBadResponse:
		return "the peer answered with a packet that does not fit the request"
	case WCLocalAccess:
		return "local buffer not accessible while an RDMA operation was handled"
	case WCRemoteInvalidRequest:
		return "the peer refused the request: check its access flags, receive buffer size, alignment of atomics and the path MTU of both ends"
	case WCRemoteAccess:
		return "the peer's region does not allow this: check rkey, address range and the region's remote access rights"
	case WCRemoteOperation:
		return "the peer could not carry the request out; its own completions say why"
	case WCRetryExceeded:
		return "no acknowledgement from the peer: check that its queue pair is in RTR or RTS with this QPN and PSN, both addresses, the path MTU and the link"
	case WCRNRRetryExceeded:
		return "the peer had no receive posted: post receives earlier, or raise rnr_retry or its min_rnr_timer"
	default:
		return "see the specification's completion statuses"
	}
}
