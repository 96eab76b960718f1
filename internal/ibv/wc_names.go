package ibv

var wcOpcodeNames = []string{
	WCSend: "SEND", WCRDMAWrite: "RDMA_WRITE", WCRDMARead: "RDMA_READ", WCCompSwap: "COMP_SWAP",
	WCFetchAdd: "FETCH_ADD", WCBindMW: "BIND_MW", WCLocalInv: "LOCAL_INV", WCFlush: "FLUSH",
	WCAtomicWrite: "ATOMIC_WRITE", WCRegMR: "REG_MR", WCRecv: "RECV", WCRecvRDMAWithImm: "RECV_RDMA_WITH_IMM",
}

// String is the name of the completed operation: "RECV".
func (o WCOpcode) String() string { return enumString("WC_OPCODE", int(o), wcOpcodeNames) }

var wcStatusNames = []string{
	WCSuccess: "SUCCESS", WCLocLenErr: "LOC_LEN_ERR", WCLocQPOpErr: "LOC_QP_OP_ERR",
	WCLocEECOpErr: "LOC_EEC_OP_ERR", WCLocProtErr: "LOC_PROT_ERR", WCWRFlushErr: "WR_FLUSH_ERR",
	WCMWBindErr: "MW_BIND_ERR", WCBadRespErr: "BAD_RESP_ERR", WCLocAccessErr: "LOC_ACCESS_ERR",
	WCRemInvReqErr: "REM_INV_REQ_ERR", WCRemAccessErr: "REM_ACCESS_ERR", WCRemOpErr: "REM_OP_ERR",
	WCRetryExcErr: "RETRY_EXC_ERR", WCRNRRetryExcErr: "RNR_RETRY_EXC_ERR",
	WCLocRDDViolErr: "LOC_RDD_VIOL_ERR", WCRemInvRDReqErr: "REM_INV_RD_REQ_ERR",
	WCRemAbortErr: "REM_ABORT_ERR", WCInvEECNErr: "INV_EECN_ERR", WCInvEECStateErr: "INV_EEC_STATE_ERR",
	WCFatalErr: "FATAL_ERR", WCRespTimeoutErr: "RESP_TIMEOUT_ERR", WCGeneralErr: "GENERAL_ERR",
	WCTMErr: "TM_ERR", WCTMRndvIncomplete: "TM_RNDV_INCOMPLETE",
}

// String is the name of the outcome: "RETRY_EXC_ERR".
func (s WCStatus) String() string { return enumString("WC_STATUS", int(s), wcStatusNames) }

var wcFlagNames = []flagName{
	{uint32(WCFlagGRH), "GRH"},
	{uint32(WCFlagWithImm), "WITH_IMM"},
	{uint32(WCFlagWithInv), "WITH_INV"},
}

// String lists the flags: "GRH|WITH_IMM".
func (f WCFlags) String() string { return flagString(uint32(f), wcFlagNames) }
