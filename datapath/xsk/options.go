package xsk

import (
	"time"

	"github.com/roce-xdp/roce-xdp/datapath/xsk/internal/ring"
)

// Mode says how frames get between the driver and the UMEM.
type Mode uint8

const (
	// Auto is zero-copy where the driver can, else copy.
	Auto Mode = iota
	// Copy has the kernel copy each frame. It works with every driver.
	Copy
	// ZeroCopy fails where the driver cannot.
	ZeroCopy
)

// String returns the name of the mode.
func (m Mode) String() string {
	switch m {
	case Auto:
		return "auto"
	case Copy:
		return "copy"
	case ZeroCopy:
		return "zero-copy"
	}
	return "unknown"
}

const (
	// DefaultRingSize is the number of entries of each ring by default.
	DefaultRingSize = 2048
	// DefaultTxBudget is Options.TxBudget by default.
	DefaultTxBudget = 256

	// kernelTxBudget is what the kernel transmits in a system call unless told
	// otherwise (TX_BATCH_SIZE of net/xdp/xsk.c), and the least it can be told.
	kernelTxBudget = 32

	// A queue is free again only some time after its socket was closed: the
	// kernel does that in a work queue, which on a busy machine can take longer than it
	// takes to start the next program.
	bindPatience  = 2 * time.Second
	bindFirstWait = time.Millisecond
	bindMaxWait   = 64 * time.Millisecond
)

// BusyPoll has the kernel process the queue inside the application's system
// calls instead of in interrupts (SO_PREFER_BUSY_POLL, Linux 5.11). The zero
// value leaves it off.
type BusyPoll struct {
	// Usecs is how long a call polls, in microseconds; 0 is off.
	Usecs int
	// Budget is how many frames are processed at most, 0 for the kernel's
	// default of 8.
	Budget int
}

// Options describes a socket. The zero value is a good one.
type Options struct {
	// UMEM is the memory to use, possibly along with other sockets. The
	// socket that comes first on a UMEM decides on Mode, need-wakeup and
	// MultiBuffer for all. If nil, the socket has memory of its own, made from
	// UMEMConfig and freed with it.
	UMEM       *UMEM
	UMEMConfig UMEMConfig
	// FillSize, CompSize, RxSize and TxSize are the entries of the rings,
	// powers of two, default DefaultRingSize.
	FillSize, CompSize, RxSize, TxSize int
	// Mode is Auto, Copy or ZeroCopy.
	Mode Mode
	// NoNeedWakeup does without the wake-up flags: each Kick is a system call.
	NoNeedWakeup bool
	// MultiBuffer lets frames span several buffers (XDP_USE_SG, Linux 6.6).
	// Receiving such frames also needs an XDP program for fragments.
	MultiBuffer bool
	// BusyPoll is off by default.
	BusyPoll BusyPoll
	// TxBudget is how many descriptors one system call may transmit in copy
	// mode, default DefaultTxBudget, at most TxSize. Kernels that cannot be
	// told (before 6.17) take 32; Socket.TxBudget tells. Fewer make a Kick
	// shorter, and it then calls more often.
	TxBudget int
	// NoBind leaves the socket unbound: Bind does it later, or bind(2) of
	// another process that was given FD.
	NoBind bool
}

// complete returns o with defaults filled in, or an error that wraps ErrConfig.
func (o *Options) complete() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	for _, r := range []struct {
		name string
		size *int
	}{{"FillSize", &c.FillSize}, {"CompSize", &c.CompSize}, {"RxSize", &c.RxSize}, {"TxSize", &c.TxSize}} {
		if *r.size == 0 {
			*r.size = DefaultRingSize
		}
		if err := ring.CheckSize(*r.size); err != nil {
			return c, configError("%s: %v", r.name, err)
		}
	}
	if c.Mode > ZeroCopy {
		return c, configError("mode %d", c.Mode)
	}
	if c.BusyPoll.Usecs < 0 || c.BusyPoll.Budget < 0 || c.BusyPoll.Budget > 1<<16-1 {
		return c, configError("busy poll for %d microseconds with a budget of %d", c.BusyPoll.Usecs, c.BusyPoll.Budget)
	}
	if c.TxBudget < 0 {
		return c, configError("transmit budget of %d", c.TxBudget)
	}
	if c.TxBudget == 0 {
		c.TxBudget = DefaultTxBudget
	}
	c.TxBudget = min(max(c.TxBudget, kernelTxBudget), c.TxSize)
	return c, nil
}
