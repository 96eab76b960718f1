package ibv

var wrOpcodeNames = []string{
	WRRDMAWrite: "RDMA_WRITE", WRRDMAWriteWithImm: "RDMA_WRITE_WITH_IMM",
	WRSend: "SEND", WRSendWithImm: "SEND_WITH_IMM", WRRDMARead: "RDMA_READ",
	WRAtomicCmpAndSwp: "ATOMIC_CMP_AND_SWP", WRAtomicFetchAdd: "ATOMIC_FETCH_AND_ADD",
	WRLocalInv: "LOCAL_INV", WRBindMW: "BIND_MW", WRSendWithInv: "SEND_WITH_INV",
	WRFlush: "FLUSH", WRAtomicWrite: "ATOMIC_WRITE", WRRegMR: "REG_MR",
}

// String is the name of the operation: "RDMA_WRITE".
func (o WROpcode) String() string { return enumString("WR_OPCODE", int(o), wrOpcodeNames) }

var mwTypeNames = []string{MWType1: "1", MWType2: "2"}

// String is the number of the type: "2".
func (t MWType) String() string { return enumString("MW_TYPE", int(t), mwTypeNames) }

var sendFlagNames = []flagName{
	{uint32(SendFence), "FENCE"},
	{uint32(SendSignaled), "SIGNALED"},
	{uint32(SendSolicited), "SOLICITED"},
	{uint32(SendInline), "INLINE"},
}

// String lists the flags: "SIGNALED|SOLICITED".
func (f SendFlags) String() string { return flagString(uint32(f), sendFlagNames) }

var flushPlacementNames = []flagName{
	{uint32(FlushGlobal), "GLOBAL"},
	{uint32(FlushPersistent), "PERSISTENT"},
}

// String lists the guarantees: "GLOBAL|PERSISTENT".
func (p FlushPlacement) String() string { return flagString(uint32(p), flushPlacementNames) }

var flushLevelNames = []string{FlushRange: "RANGE", FlushRegion: "MR"}

// String is the name of the level: "RANGE".
func (l FlushLevel) String() string { return enumString("FLUSH_LEVEL", int(l), flushLevelNames) }
