package ibv

import "strconv"

// DeviceCap are things that a device can do (ibv_device_cap_flags and their
// 64-bit extension).
type DeviceCap uint64

// Capabilities.
const (
	DeviceBadPKeyCntr     DeviceCap = 1 << 1  // counts packets with a wrong P_Key
	DeviceBadQKeyCntr     DeviceCap = 1 << 2  // counts datagrams with a wrong Q_Key
	DeviceUDAVPortEnforce DeviceCap = 1 << 6  // checks the port of address handles
	DeviceCurrQPStateMod  DeviceCap = 1 << 7  // takes the attribute CUR_STATE
	DevicePortActiveEvent DeviceCap = 1 << 10 // raises PORT_ACTIVE
	DeviceSysImageGUID    DeviceCap = 1 << 11
	DeviceRCRNRNakGen     DeviceCap = 1 << 12 // answers RNR NAK when it has no receive
	DeviceSRQResize       DeviceCap = 1 << 13
	DeviceMemWindow       DeviceCap = 1 << 17 // memory windows of type 1
	DeviceXRC             DeviceCap = 1 << 20
	DeviceMemMgtExt       DeviceCap = 1 << 21 // fast registration and invalidation
	DeviceMemWindowType2A DeviceCap = 1 << 23
	DeviceMemWindowType2B DeviceCap = 1 << 24
	DeviceFlushGlobal     DeviceCap = 1 << 38
	DeviceFlushPersistent DeviceCap = 1 << 39
	DeviceAtomicWrite     DeviceCap = 1 << 40
)

var deviceCapNames = []struct {
	bit  DeviceCap
	name string
}{
	{DeviceBadPKeyCntr, "BAD_PKEY_CNTR"},
	{DeviceBadQKeyCntr, "BAD_QKEY_CNTR"},
	{DeviceUDAVPortEnforce, "UD_AV_PORT_ENFORCE"},
	{DeviceCurrQPStateMod, "CURR_QP_STATE_MOD"},
	{DevicePortActiveEvent, "PORT_ACTIVE_EVENT"},
	{DeviceSysImageGUID, "SYS_IMAGE_GUID"},
	{DeviceRCRNRNakGen, "RC_RNR_NAK_GEN"},
	{DeviceSRQResize, "SRQ_RESIZE"},
	{DeviceMemWindow, "MEM_WINDOW"},
	{DeviceXRC, "XRC"},
	{DeviceMemMgtExt, "MEM_MGT_EXTENSIONS"},
	{DeviceMemWindowType2A, "MEM_WINDOW_TYPE_2A"},
	{DeviceMemWindowType2B, "MEM_WINDOW_TYPE_2B"},
	{DeviceFlushGlobal, "FLUSH_GLOBAL"},
	{DeviceFlushPersistent, "FLUSH_PERSISTENT"},
	{DeviceAtomicWrite, "ATOMIC_WRITE"},
}

// Names are the names of the capabilities, in the order of their bits; of a bit
// without one, the number.
func (c DeviceCap) Names() (names []string) {
	for _, n := range deviceCapNames {
		if c&n.bit != 0 {
			names = append(names, n.name)
			c &^= n.bit
		}
	}
	if c != 0 {
		names = append(names, "0x"+strconv.FormatUint(uint64(c), 16))
	}
	return names
}

// ODPCap are operations that work on memory whose pages need not be there, of one
// transport service (ibv_odp_transport_cap_bits).
type ODPCap uint32

// Operations on such memory.
const (
	ODPSend    ODPCap = 1 << 0
	ODPRecv    ODPCap = 1 << 1
	ODPWrite   ODPCap = 1 << 2
	ODPRead    ODPCap = 1 << 3
	ODPAtomic  ODPCap = 1 << 4
	ODPSRQRecv ODPCap = 1 << 5
)

var odpCapNames = []flagName{
	{uint32(ODPSend), "SEND"}, {uint32(ODPRecv), "RECV"}, {uint32(ODPWrite), "WRITE"},
	{uint32(ODPRead), "READ"}, {uint32(ODPAtomic), "ATOMIC"}, {uint32(ODPSRQRecv), "SRQ_RECV"},
}

// String lists the operations: "SEND|RECV".
func (c ODPCap) String() string { return flagString(uint32(c), odpCapNames) }

// ReregFlags say what a change of a region changes (ibv_rereg_mr_flags).
type ReregFlags uint8

// Parts of a region that can change.
const (
	ReregTranslation ReregFlags = 1 << 0 // the memory
	ReregPD          ReregFlags = 1 << 1 // the protection domain
	ReregAccess      ReregFlags = 1 << 2 // the rights
)

// Advice says what is to happen to pages of regions (ibv_advise_mr_advice).
type Advice uint8

// Advice.
const (
	AdvisePrefetch        Advice = 0 // have them ready to be read
	AdvisePrefetchWrite   Advice = 1 // and written
	AdvisePrefetchNoFault Advice = 2 // only those that are in memory
)
