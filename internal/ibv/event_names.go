package ibv

var eventTypeNames = []string{
	EventCQErr: "CQ_ERR", EventQPFatal: "QP_FATAL", EventQPReqErr: "QP_REQ_ERR",
	EventQPAccessErr: "QP_ACCESS_ERR", EventCommEst: "COMM_EST", EventSQDrained: "SQ_DRAINED",
	EventPathMig: "PATH_MIG", EventPathMigErr: "PATH_MIG_ERR", EventDeviceFatal: "DEVICE_FATAL",
	EventPortActive: "PORT_ACTIVE", EventPortErr: "PORT_ERR", EventLIDChange: "LID_CHANGE",
	EventPKeyChange: "PKEY_CHANGE", EventSMChange: "SM_CHANGE", EventSRQErr: "SRQ_ERR",
	EventSRQLimitReached: "SRQ_LIMIT_REACHED", EventQPLastWQEReached: "QP_LAST_WQE_REACHED",
	EventClientReregister: "CLIENT_REREGISTER", EventGIDChange: "GID_CHANGE",
	EventWQFatal: "WQ_FATAL", EventSpeedChange: "DEVICE_SPEED_CHANGE",
}

// String is the name of the event: "COMM_EST".
func (t EventType) String() string { return enumString("EVENT_TYPE", int(t), eventTypeNames) }
