package verbs

import (
	"context"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// Provider is a device as this package sees it: package datapath implements it
// inside the process, a daemon's client over shared memory. Applications do not
// call it; they use Context. All methods are safe for concurrent use.
type Provider interface {
	Name() string // of the interface: "eth0"
	QueryDevice() (DeviceAttr, error)
	QueryPort() (PortAttr, error)
	QueryClock() (Clock, error)
	// GIDs are the entries of the GID table in index order; holes are invalid
	// entries.
	GIDs() ([]GIDEntry, error)
	// Resolve is Context.Resolve; req is not nil.
	Resolve(ctx context.Context, req *ResolveRequest) (Resolution, error)
	AllocPD() (uint32, error)
	DeallocPD(pd uint32) error
	// AllocBuffer returns n bytes, page-aligned and locked.
	AllocBuffer(n int) ([]byte, error)
	FreeBuffer(b []byte) error
	RegisterMemory(pd uint32, b []byte, access ibv.Access) (ProviderMR, error)
	// RegisterImplicit makes all memory of the process a region from address 0 on.
	RegisterImplicit(pd uint32, access ibv.Access) (ProviderMR, error)
	// ReregisterMemory changes a region and returns when nothing goes by what it was.
	// On an error nothing has changed; it is ErrBusy while windows or fast regions are
	// bound to the region.
	ReregisterMemory(mr ProviderMR, c *ProviderRereg) (ProviderMR, error)
	AdviseMemory(pd uint32, advice ibv.Advice, sges []SGE) error
	// DeregisterMemory returns when nothing can touch the memory any more. It is
	// ErrBusy while windows or fast regions are bound to the region.
	DeregisterMemory(mr ProviderMR) error
	AllocMW(pd uint32, typ ibv.MWType) (ProviderMW, error)
	// DeallocMW returns when nothing goes through the window any more.
	DeallocMW(mw ProviderMW) error
	// AllocFastMR makes a region without memory, for at most limit bytes.
	AllocFastMR(pd uint32, limit uint64) (ProviderMR, error)
	// DeallocFastMR returns when nothing goes through the region any more. It is
	// ErrBusy while windows are bound to it.
	DeallocFastMR(mr ProviderMR) error
	CreateCQ(entries int) (ProviderCQ, error)
	CreateSRQ(attr *ProviderSRQInit) (ProviderSRQ, error)
	// OpenXRCD returns the handle, not 0, of a domain that is attr.Name's, or new if
	// that is empty. Each open needs a CloseXRCD. Errors: fs.ErrExist, fs.ErrNotExist.
	OpenXRCD(attr *XRCDInitAttr) (uint32, error)
	CloseXRCD(xrcd uint32) error
	// OpenQP gives one more handle on a target of the domain, which ends when all of
	// its handles are destroyed.
	OpenQP(xrcd, qpn uint32) (ProviderQP, error)
	CreateQP(attr *ProviderQPInit) (ProviderQP, error)
	// CreateAH finds the way to a peer and returns the handle that send work
	// queue entries name it by; it is not 0. It waits for the next hop as Resolve does;
	// with an error nothing has been made.
	CreateAH(ctx context.Context, pd uint32, av *ibv.AddressVector) (uint32, error)
	// DestroyAH returns when no datagram leaves by the handle any more. Entries that
	// still name it fail, and do not reach a peer whose handle comes after it.
	DestroyAH(ah uint32) error
	// Progress drives the device once in the caller's goroutine and reports
	// whether anything was done.
	Progress() bool
	// NextEvent waits for an asynchronous event.
	NextEvent(ctx context.Context) (ProviderEvent, error)
	// Subscribe makes a further reader of events, of the given types or, with none, of
	// all. Every reader gets every event that comes from now on.
	Subscribe(types ...ibv.EventType) (ProviderEvents, error)
	// Counters are the device's counters in a stable order.
	Counters() ([]CounterValue, error)
	Close() error
}

// ProviderMR is a registered memory region.
type ProviderMR struct {
	Handle     uint64
	Addr       uint64 // virtual address of the first byte, as SGEs and peers name it
	LKey, RKey uint32
}

// ProviderSRQInit is what a provider makes a shared receive queue of; capacities are
// validated.
type ProviderSRQInit struct {
	PD   uint32
	Attr ibv.SRQAttr
	XRCD uint32     // 0: not of an XRC domain
	CQ   ProviderCQ // of one that is: where its receives complete to
}

// ProviderMW is a memory window.
type ProviderMW struct {
	Handle uint64
	RKey   uint32 // the first, by which nothing is bound
}

// ProviderRereg is what becomes of a region; Flags say which fields count.
type ProviderRereg struct {
	Flags  ibv.ReregFlags
	PD     uint32
	Buf    []byte
	Access ibv.Access
}

// ProviderQPInit is what a provider makes a queue pair of; capacities are
// validated and not 0, but for those of receives when there is an SRQ or the type
// is XRCSend. Of type XRCRecv there are XRCD and Context alone.
type ProviderQPInit struct {
	PD             uint32
	Type           ibv.QPType
	SendCQ, RecvCQ ProviderCQ
	SRQ            ProviderSRQ // nil: a receive queue of its own
	XRCD           uint32
	Cap            ibv.QPCap
	SigAll         bool
	Context        uint64
	Congestion     ibv.Congestion
}

// ProviderCQ is the device's side of a completion queue.
type ProviderCQ interface {
	// Ring carries queue.CQE elements; the caller is its consumer. Resize may have
	// made another one of it.
	Ring() *queue.Ring
	// Resize gives the queue room for entries completions. The caller does not
	// consume meanwhile and goes on at the beginning of the new Ring, to which what
	// it had not taken, and the arm word, have moved. On an error nothing has changed.
	Resize(entries int) error
	// Modify has events wait for count completions, or for period after the first.
	Modify(count int, period time.Duration) error
	Query() (CQAttr, error)
	// Progress drives what completes to this queue, in the caller's goroutine,
	// and reports whether anything was done.
	Progress() bool
	// WaitEvent sleeps until an event that the ring's arm word asked for has been
	// raised since it was armed, or ctx ends. An event raised before the call is
	// not lost.
	WaitEvent(ctx context.Context) error
	Destroy() error
}

// ProviderSRQ is the device's side of a shared receive queue. There is no
// doorbell: who is refused for want of a receive comes again.
type ProviderSRQ interface {
	// Ring carries receive elements; the caller is its producer. Modify may have
	// made another one of it.
	Ring() *queue.Ring
	Num() uint32 // by which requests of XRC name it; 0 of others
	// Modify sets the attributes of mask. With MaxWR the caller does not produce
	// meanwhile and goes on at the producer index of the new Ring.
	Modify(attr *ibv.SRQAttr, mask ibv.SRQAttrMask) error
	Query() (ibv.SRQAttr, error)
	// Destroy is ErrBusy while queue pairs use the queue.
	Destroy() error
}

// ProviderQP is the device's side of a queue pair.
type ProviderQP interface {
	QPN() uint32
	SQ() *queue.Ring // the caller is the producer; nil of XRCRecv
	RQ() *queue.Ring // the caller is the producer; nil with an SRQ, and of XRC
	// Doorbell says that send work requests were published; it transmits in the
	// caller's goroutine when the worker is idle.
	Doorbell()
	// RecvDoorbell says that receive work requests were published. Only a queue
	// pair in error (which flushes them) or one that owes credits needs it.
	RecvDoorbell()
	// Modify with AV waits for the next hop as Provider.Resolve does; with an error
	// nothing has changed. It may be called while another call of it waits.
	Modify(ctx context.Context, attr *ibv.QPAttr, mask ibv.AttrMask) error
	Query() (ibv.QPAttr, error)
	// AttachMulticast has a queue pair of datagrams receive what is sent to a
	// group, until DetachMulticast or Destroy. Twice is no error.
	AttachMulticast(group ibv.GID) error
	// DetachMulticast returns when nothing of the group arrives any more.
	DetachMulticast(group ibv.GID) error
	Destroy() error
}

// ProviderEvent is an asynchronous event; QP, CQ or SRQ is what it is about.
type ProviderEvent struct {
	Type ibv.EventType
	QP   ProviderQP
	CQ   ProviderCQ
	SRQ  ProviderSRQ
	Port int
}

// Interrupter is implemented by a Provider whose calls may wait for other hosts.
type Interrupter interface {
	// Interrupt has the calls that do so, now or later, fail with ErrClosed at once, as
	// Close is about to come.
	Interrupt()
}

// ProviderEvents is a reader of events besides Provider.NextEvent.
type ProviderEvents interface {
	// NextEvent waits for an event; it is ErrClosed after Close, also for who waits, and
	// once the device is closed.
	NextEvent(ctx context.Context) (ProviderEvent, error)
	Close()
}

// CounterValue is one named counter.
type CounterValue struct {
	Name  string
	Value uint64
}
