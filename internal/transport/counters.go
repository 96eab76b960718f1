package transport

// Counter names one counter of a worker. The first fifteen carry the names of
// Linux's rxe hw_counters.
type Counter uint8

// Counters. "Drop" counters say why a packet had no effect.
const (
	SentPkts Counter = iota
	RcvdPkts
	DuplicateRequest
	OutOfSeqRequest
	RcvdRNRErr
	SendRNRErr
	RcvdSeqErr
	AckDeferred
	RetryExceededErr
	RetryRNRExceededErr
	CompleterRetryErr
	SendErr
	LinkDowned
	RDMASends
	RDMARecvs

	SentBytes         // payload bytes sent
	RcvdBytes         // payload bytes accepted
	SentAcks          // ACKNOWLEDGE packets with an ACK syndrome
	ImpliedNak        // responses that showed an earlier READ or atomic to be lost
	DuplicateAck      // acknowledgements of nothing new
	DuplicateAtomic   // atomics answered from the stored result
	DuplicateRead     // READs executed again
	ReadOverruns      // duplicate READs after which responses are sent more slowly
	OutOfOrderKept    // packets kept until their gap closes
	OutOfOrderUsed    // kept packets used
	DropOutOfOrder    // packets after a gap that were not kept
	DropState         // the queue pair's state takes no such packet
	DropPeer          // source or destination address is not the connection's
	DropPKey          // P_Key does not match
	DropOpcode        // opcode of another transport service
	DropStaleResponse // response outside the outstanding range
	DropSyndrome      // reserved AETH syndrome
	DropDuplicate     // duplicate READ or atomic without a stored result
	DropResponse      // response that fits no outstanding request
	PayloadFault      // payload memory went away before it was sent
	SentNaks          // NAKs sent, without RNR NAKs
	DropFlushOverrun  // FLUSH with no place for its result
	DropInvalidate    // SEND with a key that cannot be invalidated
	AddressFault      // UD: address handle of a work request that names no path
	DropQKey          // UD: Q_Key is not the queue pair's
	DropNoReceive     // UC, UD: no receive work request
	DropBufferSize    // UC, UD: message longer than the receive work request
	DropLength        // UC, UD: wrong packet or message length
	DropAccess        // UC: not granted by the queue pair, or wrong key, rights or range
	AbandonedMessages // UC: messages of which a part came

	LocalAckTimeoutErr // local ACK timeouts that expired
	RepeatedPkts       // request packets sent more than once
	TailProbes         // repetitions of the oldest packet because its ACK was overdue, without a NAK
	RenewedNaks        // sequence NAKs sent again
	EcnMarkedPkts      // packets received that a switch has marked
	SentCNPs           // congestion notifications sent
	HandledCNPs        // congestion notifications received

	NumCounters
)

var counterNames = [NumCounters]string{
	"sent_pkts", "rcvd_pkts", "duplicate_request", "out_of_seq_request", "rcvd_rnr_err",
	"send_rnr_err", "rcvd_seq_err", "ack_deferred", "retry_exceeded_err", "retry_rnr_exceeded_err",
	"completer_retry_err", "send_err", "link_downed", "rdma_sends", "rdma_recvs",
	"sent_bytes", "rcvd_bytes", "sent_acks", "implied_nak", "duplicate_ack",
	"duplicate_atomic", "duplicate_read", "read_overruns", "out_of_order_kept", "out_of_order_used", "drop_out_of_order",
	"drop_qp_state", "drop_peer_address", "drop_pkey", "drop_opcode", "drop_stale_response",
	"drop_reserved_syndrome", "drop_duplicate", "drop_response", "payload_fault",
	"sent_naks", "drop_flush_overrun", "drop_invalidate", "address_fault",
	"drop_qkey", "drop_no_receive", "drop_buffer_size", "drop_length", "drop_access", "abandoned_messages",
	"local_ack_timeout_err", "repeated_pkts", "tail_probes", "renewed_naks",
	"np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled",
}

// String is the counter's name as tools print it.
func (c Counter) String() string {
	if c < NumCounters {
		return counterNames[c]
	}
	return "unknown"
}

// Counters are the counters of one worker, written only by who drives it.
type Counters [NumCounters]uint64
