package verbs

// SGE is a scatter/gather entry (ibv_sge): Length bytes at Addr in the region
// of LKey. MR.SGE makes one.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// SendWR is a send work request (ibv_send_wr).
type SendWR struct {
	WRID   uint64 // comes back in the completion
	Opcode Opcode
	Flags  SendFlags
	SGList []SGE // source; for READ and atomics, where the result goes

	// InlineData with SendInline is copied when posting and needs no region; with
	// SendInline and no InlineData, the bytes that SGList names are copied.
	InlineData []byte

	Imm           uint32 // immediate data, sent in network order
	InvalidateKey uint32 // OpSendWithInv: the peer's R_Key to invalidate; OpLocalInv: one's own key

	RemoteAddr uint64 // RDMA and atomics: address in the peer's region
	RKey       uint32 // and its key; OpBindMW, OpRegMR: the new key, see IncRKey

	CompareAdd uint64 // atomics: value to compare, or to add
	Swap       uint64 // compare-and-swap: new value

	// OpFlush has no SGList: it makes what earlier requests wrote to FlushLength
	// bytes at RemoteAddr, or to the whole region of RKey, as visible or durable as
	// FlushPlacement says before it completes (IBTA vol. 1, annex A19). The peer's
	// region and queue pair need AccessFlushGlobal or AccessFlushPersistent.
	FlushPlacement FlushPlacement
	FlushLevel     FlushLevel
	FlushLength    uint32

	// OpBindMW binds MW, a free window of type 2, to Bind by the key RKey. OpRegMR
	// registers Bind as FastMR, which is free, by that key. Neither waits for earlier
	// requests, unless they have SendFence: then for all. OpLocalInv, which always
	// waits for all earlier requests, makes the window or FastMR of InvalidateKey free:
	// later accesses by the key fail; one by another queue pair that is being carried
	// out at that moment may still end. These three have no SGList and send nothing;
	// in their order they complete like others, and fail with WCMWBind or
	// WCLocalQPOperation.
	MW     *MW
	FastMR *FastMR
	Bind   *MWBindInfo

	ofType1 bool // QP.BindMW

	// UD only: the way to the peer, its queue pair number (24 bits; MulticastQPN when
	// it is a group), and its Q_Key.
	// With bit 31 set in RemoteQKey the queue pair's own Q_Key is sent instead (IBTA
	// vol. 1, 10.2.5). A datagram is no longer than the port's active MTU.
	AH         *AH
	RemoteQPN  uint32
	RemoteQKey uint32

	// XRCSend only: the number (24 bits) of the shared receive queue at the peer that
	// the request is for. It takes its receives from there, and its keys are those of
	// that queue's protection domain.
	RemoteSRQN uint32
}

// RecvWR is a receive work request (ibv_recv_wr).
type RecvWR struct {
	WRID   uint64
	SGList []SGE // where the message goes; a datagram's after GRHLen bytes of its own
}
