package stage

import "github.com/roce-xdp/roce-xdp/internal/ibv"

// config is what a test chooses; defaults has the rest.
type config struct {
	typ    ibv.QPType
	attr   ibv.QPAttr
	state  ibv.QPState
	region ibv.Access // of the memory that the peer reaches
	window int
	keep   int
	batch  int
	depth  int
	cqe    int
	sigAll bool
	shared bool
	oneCQ  bool
}

const allAccess = ibv.AccessLocalWrite | ibv.AccessRemoteWrite | ibv.AccessRemoteRead | ibv.AccessRemoteAtomic | ibv.AccessFlushGlobal

func defaults(typ ibv.QPType) config {
	return config{
		typ: typ, state: ibv.QPStateRTS, region: allAccess | ibv.AccessMWBind,
		window: 64, batch: 64, depth: 64, cqe: 256,
		attr: ibv.QPAttr{
			Port: 1, AccessFlags: allAccess, PathMTU: ibv.MTU256, DestQPN: PeerQPN, SQPSN: SQPSN, RQPSN: RQPSN,
			MaxRDAtomic: 4, MaxDestRDAtomic: 4, MinRNRTimer: 12, Timeout: 14, RetryCnt: 3, RNRRetry: 3,
			QKey: QKey, AV: ibv.AddressVector{DGID: peer, Port: 1},
		},
	}
}

// Option changes how the stage is set.
type Option func(*config)

// In stops at an earlier state than RTS.
func In(state ibv.QPState) Option { return func(c *config) { c.state = state } }

// Attr changes any attribute of the queue pair: timeout, retries, credits.
func Attr(change func(*ibv.QPAttr)) Option { return func(c *config) { change(&c.attr) } }

// Grants sets the access flags of the queue pair.
func Grants(a ibv.Access) Option { return func(c *config) { c.attr.AccessFlags = a } }

// RegionGrants sets the rights of the memory that the peer reaches.
func RegionGrants(a ibv.Access) Option { return func(c *config) { c.region = a } }

// Window sets how many PSNs may be unacknowledged, 64 otherwise.
func Window(n int) Option { return func(c *config) { c.window = n } }

// KeepBudget sets how many packets after a gap may be kept, none otherwise.
func KeepBudget(n int) Option { return func(c *config) { c.keep = n } }

// BatchOf sets how many packets a batch has room for, 64 otherwise.
func BatchOf(n int) Option { return func(c *config) { c.batch = n } }

// CQEntries sets the size of both completion queues, 256 otherwise.
func CQEntries(n int) Option { return func(c *config) { c.cqe = n } }

// Shared takes receives from a shared receive queue.
func Shared() Option { return func(c *config) { c.shared = true } }

// SigAll signals every send work request.
func SigAll() Option { return func(c *config) { c.sigAll = true } }

// OneCQ completes receives to the completion queue of the send queue: Completes
// says them.
func OneCQ() Option { return func(c *config) { c.oneCQ = true } }
