package datapath

import (
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// caps are what the engine can do whatever the interface is.
const caps = ibv.DeviceBadPKeyCntr | ibv.DeviceBadQKeyCntr | ibv.DeviceUDAVPortEnforce | ibv.DeviceCurrQPStateMod |
	ibv.DevicePortActiveEvent | ibv.DeviceSysImageGUID | ibv.DeviceRCRNRNakGen | ibv.DeviceSRQResize | ibv.DeviceXRC |
	ibv.DeviceFlushGlobal | ibv.DeviceAtomicWrite | keyCaps

// keyCaps are those of keys that work requests bind. A window of type 2 belongs to
// a queue pair's number and, as it ends with that queue pair, to its domain: 2A and
// 2B at once.
const keyCaps = ibv.DeviceMemWindow | ibv.DeviceMemWindowType2A | ibv.DeviceMemWindowType2B | ibv.DeviceMemMgtExt

// ackDelay is the local CA ACK delay, 4.096 us * 2^15 = 134 ms, as of Linux's rxe:
// a busy machine answers late.
const ackDelay = 15

// fillCaps completes the attributes by those that do not depend on the device.
func fillCaps(a *verbs.DeviceAttr) {
	a.Caps |= caps
	a.SysImageGUID, a.LocalCAAckDelay = a.NodeGUID, ackDelay
	a.ODP = odpCaps()
	a.MaxCQCount, a.MaxCQPeriod = ibv.MaxCQCount, ibv.MaxCQPeriod
	a.CompletionTimestampMask, a.HCACoreClockKHz = 1<<63-1, uint64(time.Second/time.Microsecond)
}

// QueryClock reads the clock of completions and the wall clock at one moment.
func (d *Device) QueryClock() (verbs.Clock, error) {
	if d.closed.Load() {
		return verbs.Clock{}, ErrClosed
	}
	// One reading has both clocks; its monotonic part is the engine's time.
	now := time.Now()
	return verbs.Clock{Raw: int64(now.Sub(epoch)), Wall: now.Round(0)}, nil
}

// violations are the packets with a wrong P_Key and the datagrams with a wrong
// Q_Key, up to what the 16 bits of the specification's counters hold (IBTA vol. 1,
// 14.2.5.6).
func (d *Device) violations() (pkey, qkey uint32, err error) {
	var p, q uint64
	for _, w := range d.workers {
		if err := w.acquire(); err != nil {
			return 0, 0, err
		}
		p += w.env.Counters[transport.DropPKey]
		q += w.env.Counters[transport.DropQKey]
		w.release(controller)
	}
	const most = 1<<16 - 1
	return uint32(min(p, most)), uint32(min(q, most)), nil
}

// laneSpeed encodes a speed in Mb/s as the lanes and the speed of each of
// libibverbs (ibv_port_attr), the slowest combination that is fast enough.
func laneSpeed(mbps int) (speed, width int) {
	const (
		sdr, ddr, fdr10, edr = 1, 2, 8, 32 // 2.5, 5, 10 and 25 Gb/s
		x1, x4               = 1, 2
	)
	switch {
	case mbps <= 2_500:
		return sdr, x1
	case mbps <= 10_000:
		return fdr10, x1
	case mbps <= 20_000:
		return ddr, x4
	case mbps <= 25_000:
		return edr, x1
	case mbps <= 40_000:
		return fdr10, x4
	}
	return edr, x4
}
