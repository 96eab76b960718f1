package datapath

import (
	"fmt"
	"runtime"
	"time"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// PollPolicy says what a background goroutine does when it runs out of work.
type PollPolicy uint8

// Poll policies.
const (
	// PollAdaptive looks for more work for Options.SpinTime, then sleeps.
	PollAdaptive PollPolicy = iota
	// PollInterrupt sleeps at once.
	PollInterrupt
	// PollBusy never sleeps: lowest latency without an application that polls, at
	// the price of one CPU for each worker.
	PollBusy
)

// Options configure a device. The zero value is a good one.
type Options struct {
	// Queues is the number of receive queues to use, from 0 on; 0 means all that
	// the interface has. Frames that arrive on other queues go unserved.
	Queues int
	// Mode is how the XDP program attaches; ModeAuto prefers the driver.
	Mode bpf.Mode
	// Socket is how frames reach the packet memory; Auto prefers zero-copy.
	Socket xsk.Mode
	// Frames is the number of receive frames of a worker, at least twice RingSize and
	// at most 4194304. Default 4096, less with many queues.
	Frames int
	// FrameSize is the size of a frame in bytes: 2048 or 4096, the default.
	FrameSize int
	// RingSize is the number of entries of the sockets' rings, a power of two.
	// Default 2048, less with many queues.
	RingSize int
	// HugePages puts the packet memory into huge pages of 2 MiB that the system has set
	// aside (vm.nr_hugepages). Without enough of them it is in ordinary pages:
	// Device.HugePages tells why.
	HugePages bool
	// BusyPoll has the kernel process a queue inside the device's system calls.
	BusyPoll xsk.BusyPoll
	// UnknownQPN is for RoCE frames to no queue pair of ours: dropped, or passed
	// to the kernel, for example to its own rdma_rxe.
	UnknownQPN bpf.Action
	// NoSocket is for RoCE frames to a queue pair of ours that find no socket, as
	// while no process has the pins of PinDir.
	NoSocket bpf.Action
	// PinDir keeps the XDP program attached across restarts; see bpf.Options.
	PinDir string

	// VLANAddrs are addresses in VLANs for which the kernel has no interface, as
	// where it has no 802.1Q support. Those of VLAN interfaces on top of this one
	// need not be named.
	VLANAddrs []VLANAddr

	// NoBackground starts no background goroutine: the device then moves only
	// inside CQ.Poll, CQ.Wait, posting and Context.Progress.
	NoBackground bool
	// Poll is what background goroutines do when they run out of work.
	Poll PollPolicy
	// SpinTime is how long PollAdaptive looks for more work. Default 20 us, 5 us
	// with two CPUs, and none with one; at least 100 us where clients in other
	// processes share memory with the device, who have the CPU meanwhile if they want.
	SpinTime time.Duration

	// OwnThreads has a worker keep a thread while it has clients in other processes. It
	// then gives way to other processes, never to other goroutines, and keeps its thread
	// off the CPUs on which these clients poll where it can. The process has to have a
	// processor (GOMAXPROCS) for each worker beside those that the rest of it needs.
	OwnThreads bool

	// Window is the most request packets that a queue pair has unacknowledged.
	// Default 256. All queue pairs together stay below half a ring.
	Window int
	// KeepBudget is how many packets that arrived out of order a queue pair may
	// keep until the gap closes, requests and READ responses together. Default 256,
	// as Window: less than what is under way helps little. Negative keeps none.
	KeepBudget int

	// Congestion is what queue pairs do when their peer reports congestion, unless
	// they are made with something else. The default is verbs.CongestionNone.
	// Marks of the network are reported to peers in any case.
	Congestion verbs.Congestion
	// LineRate is the rate in bit/s at which queue pairs with congestion control
	// begin and that they return to, at least 1 Mbit/s. Default is the link's speed,
	// or 10 Gbit/s when it has none.
	LineRate int64
	// CNPInterval is the least time between two reports of congestion by a queue
	// pair, up to a second. Default 50 us; negative reports none.
	CNPInterval time.Duration
}

const (
	defaultRing   = 2048
	defaultFrames = 2 * defaultRing
	// manyQueues is from where on workers get less memory each, so that a device
	// with many queues stays near the 24 MiB times manyQueues of one with few.
	manyQueues    = 8
	minRing       = 64
	maxRing       = 1 << 16
	maxFrames     = 64 * maxRing // of a worker: 16 GiB
	defaultSpin   = 20 * time.Microsecond
	shortSpin     = 5 * time.Microsecond
	defaultKeep   = transport.DefaultWindow
	maxWorkers    = 64 // as many as a bit mask holds, and the socket map
	smallMachine  = 2  // CPUs up to which spinning takes time from those one waits for
	minWindow     = 8
	maxWindow     = 1 << 15
	minFrameSize  = xsk.MinFrameSize
	fullFrameSize = 4096
	maxSpin       = time.Second
	maxKeepPerQP  = 1 << 12
	maxCNPWait    = time.Second
)

// complete returns o with defaults for a device of the given number of queues on
// a machine with cpus CPUs.
func (o *Options) complete(queues, cpus int) (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Queues == 0 {
		c.Queues = min(queues, maxWorkers)
	}
	if c.Queues < 1 || c.Queues > maxWorkers || c.Queues > queues {
		return c, fmt.Errorf("%w: Queues is %d: the interface has %d, and %d can be used", ErrConfig, c.Queues, queues, min(queues, maxWorkers))
	}
	if c.RingSize == 0 {
		c.RingSize = defaultRing
		for n := c.Queues; n > manyQueues && c.RingSize > minRing; n /= 2 {
			c.RingSize /= 2
		}
	}
	if c.RingSize < minRing || c.RingSize > maxRing || c.RingSize&(c.RingSize-1) != 0 {
		return c, fmt.Errorf("%w: RingSize is %d: a power of two from %d to %d is needed", ErrConfig, c.RingSize, minRing, maxRing)
	}
	if c.Frames == 0 {
		c.Frames = c.RingSize * (defaultFrames / defaultRing)
	}
	if c.Frames < 2*c.RingSize {
		return c, fmt.Errorf("%w: Frames is %d: at least twice the %d entries of a ring are needed", ErrConfig, c.Frames, c.RingSize)
	}
	if c.Frames > maxFrames {
		return c, fmt.Errorf("%w: Frames is %d: at most %d are possible", ErrConfig, c.Frames, maxFrames)
	}
	if c.FrameSize == 0 {
		c.FrameSize = fullFrameSize
	}
	if c.FrameSize != minFrameSize && c.FrameSize != fullFrameSize {
		return c, fmt.Errorf("%w: FrameSize is %d: %d and %d are possible", ErrConfig, c.FrameSize, minFrameSize, fullFrameSize)
	}
	for i := range c.VLANAddrs {
		if err := c.VLANAddrs[i].check(); err != nil {
			return c, err
		}
	}
	return c, completePolicy(&c, cpus)
}

// Check refuses what no device can be opened with, whatever its interface. nil
// options are good ones.
func (o *Options) Check() error {
	_, err := o.complete(maxWorkers, runtime.NumCPU())
	return err
}

// completePolicy does the same for what is not about memory, in place.
func completePolicy(c *Options, cpus int) error {
	if c.Poll > PollBusy {
		return fmt.Errorf("%w: poll policy %d", ErrConfig, c.Poll)
	}
	if c.SpinTime < 0 || c.SpinTime > maxSpin {
		return fmt.Errorf("%w: SpinTime is %v: 0 to %v is possible", ErrConfig, c.SpinTime, maxSpin)
	}
	if c.SpinTime == 0 {
		switch {
		case cpus > smallMachine:
			c.SpinTime = defaultSpin
		case cpus > 1:
			c.SpinTime = shortSpin
		}
	}
	if c.Poll == PollInterrupt {
		c.SpinTime = 0
	}
	if c.Window == 0 {
		c.Window = transport.DefaultWindow
	}
	if c.Window < minWindow || c.Window > maxWindow {
		return fmt.Errorf("%w: Window is %d: %d to %d packets are possible", ErrConfig, c.Window, minWindow, maxWindow)
	}
	if err := completeCongestion(c); err != nil {
		return err
	}
	switch {
	case c.KeepBudget == 0:
		c.KeepBudget = defaultKeep
	case c.KeepBudget < 0:
		c.KeepBudget = 0
	case c.KeepBudget > maxKeepPerQP:
		return fmt.Errorf("%w: KeepBudget is %d: at most %d", ErrConfig, c.KeepBudget, maxKeepPerQP)
	}
	return nil
}

// completeCongestion does the same for what is about congestion, in place.
func completeCongestion(c *Options) error {
	if !c.Congestion.Valid() {
		return fmt.Errorf("%w: Congestion is %v: %v and %v are possible", ErrConfig, c.Congestion, verbs.CongestionNone, verbs.CongestionDCQCN)
	}
	if c.LineRate < 0 || c.LineRate != 0 && c.LineRate < megabit {
		return fmt.Errorf("%w: LineRate is %d bit/s: at least %d is needed", ErrConfig, c.LineRate, megabit)
	}
	if c.CNPInterval > maxCNPWait {
		return fmt.Errorf("%w: CNPInterval is %v: up to %v is possible", ErrConfig, c.CNPInterval, maxCNPWait)
	}
	if c.CNPInterval == 0 {
		c.CNPInterval = transport.DefaultCNPInterval
	}
	return nil
}
