package xsk

import "time"

// Port is what a datapath needs of a socket. Socket implements it over the
// kernel, xsktest.Port in memory. All of it is called once for a batch, never
// once for a frame, and nothing of it allocates.
//
// Fill, Receive, RxAvail, FillFree, NeedFillWakeup and WakeFill belong to the
// receive half; Submit, Kick, Complete, TxFree, TxPending and CompAvail to the
// transmit half. Each half is for one goroutine at a time.
type Port interface {
	// Fill lends free frames to the kernel to receive into. It returns how
	// many of addrs it took; the others still belong to the caller.
	Fill(addrs []uint64) int
	// Receive stores descriptors of received buffers in dst and returns how
	// many. All but the last buffer of a frame carry Continued. A frame that
	// would be cut by the end of dst is left for the next call, unless it
	// alone is longer than dst: then it is returned in pieces.
	Receive(dst []Desc) int
	// Submit queues descriptors for transmission, without a system call, and
	// returns how many it took: whole frames only. A frame without its last
	// descriptor is not taken.
	Submit(descs []Desc) int
	// Kick has the kernel transmit what is queued. When the kernel cannot
	// take all of it now, Kick returns nil and TxPending is not zero: call it
	// again later. An error for which errors.Is(err, ErrDown) holds says that
	// the interface is down; what is queued stays queued.
	Kick() error
	// Complete stores addresses of frames whose transmission is done in dst,
	// as they were submitted, and returns how many.
	Complete(dst []uint64) int

	// RxAvail returns how many buffers wait to be received. Like the four
	// below it is a hint: the kernel goes on meanwhile.
	RxAvail() int
	// TxFree returns how many descriptors Submit can take.
	TxFree() int
	// TxPending returns how many submitted descriptors the kernel has not
	// taken yet.
	TxPending() int
	// FillFree returns how many addresses Fill can take.
	FillFree() int
	// CompAvail returns how many addresses Complete has.
	CompAvail() int

	// NeedFillWakeup reports whether the driver sleeps until WakeFill is
	// called, because it had no frames to fill or because of busy polling.
	NeedFillWakeup() bool
	// WakeFill tells the driver that frames were filled.
	WakeFill() error

	// UMEM returns the memory that all descriptors refer to.
	UMEM() *UMEM
	// Stats returns the counters. Safe from any goroutine.
	Stats() (Stats, error)
	// Close frees the port. Neither half may be in use.
	Close() error
}

// Waiter puts a goroutine to sleep until there is something to receive. One
// goroutine at a time sleeps; any may wake it.
type Waiter interface {
	// Sleep returns true as soon as a port has something to receive or Wake
	// was called, and false when d has passed; d < 0 means no limit. A Wake
	// that came before makes the next Sleep return at once.
	Sleep(d time.Duration) (woken bool, err error)
	// Wake makes the sleeping or the next Sleep return. Any number of calls
	// before that count as one. It makes no system call if nobody sleeps.
	Wake()
	// Watch has whatever is written to an event counter (eventfd), which may be
	// another process's to write to, count as a Wake. The counter is not read. It
	// stays open until Unwatch.
	Watch(fd int) error
	Unwatch(fd int) error
	// Close ends a Sleep in progress with an error and frees the waiter.
	Close() error
}
