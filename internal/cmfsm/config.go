package cmfsm

import (
	"math/rand/v2"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// Defaults, which are those of rdma_cm on RoCE.
const (
	DefaultResponseTimeout = 20         // 4.3 s: the time that an answer may take
	DefaultMaxRetries      = 15         // repetitions of a message
	DefaultPacketLife      = 16         // 0.27 s: a packet's life in the network
	DefaultHopLimit        = 64         //
	DefaultAckDelay        = 15         // 134 ms: what rdma_rxe says of itself
	DefaultQKey            = 0x01234567 // of UD services (RDMA_UDP_QKEY)
	serviceTimeout         = 24         // 69 s: what an MRA asks for
	firstEphemeralPort     = 32768
	lastEphemeralPort      = 60999
)

// Config describes a device to its machine. The zero value of a field, but for
// GUID and Rand, stands for its default.
type Config struct {
	// GUID names the device to its peers. It must differ from theirs: they tell by
	// it whether two connections come from the same queue pair.
	GUID uint64
	// Rand makes communication ids, transaction ids and PSNs, and should be
	// unpredictable, as they are what keeps strangers from ending connections.
	Rand rand.Source

	MTU      ibv.MTU // largest path MTU of the port; default 4096. See SetMTU.
	AckDelay uint8   // time to acknowledge, 4.096 us * 2^n, 1 to 31; default 15

	MaxResponderResources uint8 // READs and atomics a queue pair serves; default 128
	MaxInitiatorDepth     uint8 // READs and atomics it has outstanding; default 128

	ResponseTimeout uint8 // time peers may take, 4.096 us * 2^n, 1 to 31; default 20
	MaxRetries      uint8 // repetitions of a message, 1 to 15; default 15

	MaxIDs      int // ids, also those in TIMEWAIT; default 65536
	MaxOwnerIDs int // of them an owner's; default MaxIDs
	MaxBacklog  int // largest backlog of a listener; default 1024
	MaxQueued   int // MADs waiting for NextMAD, what is more is lost; default 1024

	FirstPort, LastPort uint16 // ephemeral ports; default 32768 to 60999
}

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// withDefaults fills in what is not set and cuts what is too large.
func (c Config) withDefaults() Config {
	c.MTU = or(c.MTU, ibv.MTU4096)
	c.AckDelay = min(or(c.AckDelay, DefaultAckDelay), 31)
	c.MaxResponderResources = or(c.MaxResponderResources, 128)
	c.MaxInitiatorDepth = or(c.MaxInitiatorDepth, 128)
	c.ResponseTimeout = min(or(c.ResponseTimeout, DefaultResponseTimeout), 31)
	c.MaxRetries = min(or(c.MaxRetries, DefaultMaxRetries), 15)
	c.MaxIDs = or(c.MaxIDs, 1<<16)
	c.MaxOwnerIDs = or(c.MaxOwnerIDs, c.MaxIDs)
	c.MaxBacklog = or(c.MaxBacklog, 1024)
	c.MaxQueued = or(c.MaxQueued, 1024)
	c.FirstPort = or(c.FirstPort, firstEphemeralPort)
	c.LastPort = max(or(c.LastPort, lastEphemeralPort), c.FirstPort)
	return c
}
