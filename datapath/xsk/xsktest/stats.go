package xsktest

import (
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
)

// counters are xsk.Stats while they count.
type counters struct {
	rxFrames, rxBuffers, rxBytes, filled, wakeups, wakeFail         atomic.Uint64
	txFrames, txBuffers, txBytes, completed, kicks, later, kickFail atomic.Uint64
	rxLost, rxDropped, rxFull, rxNoFill, rxInvalid, txInvalid       atomic.Uint64
}

func (c *counters) received(descs []xsk.Desc) {
	add(descs, &c.rxFrames, &c.rxBuffers, &c.rxBytes)
}

func (c *counters) submitted(descs []xsk.Desc) {
	add(descs, &c.txFrames, &c.txBuffers, &c.txBytes)
}

func add(descs []xsk.Desc, frames, buffers, bytes *atomic.Uint64) {
	for i := range descs {
		bytes.Add(uint64(descs[i].Len))
		frames.Add(uint64(^descs[i].Options & xsk.Continued))
	}
	buffers.Add(uint64(len(descs)))
}

func (c *counters) snapshot() xsk.Stats {
	return xsk.Stats{
		RxFrames: c.rxFrames.Load(), RxBuffers: c.rxBuffers.Load(), RxBytes: c.rxBytes.Load(),
		TxFrames: c.txFrames.Load(), TxBuffers: c.txBuffers.Load(), TxBytes: c.txBytes.Load(),
		Filled: c.filled.Load(), Completed: c.completed.Load(),
		Kicks: c.kicks.Load(), KickLater: c.later.Load(), KickErrors: c.kickFail.Load(),
		FillWakeups: c.wakeups.Load(), FillWakeupErrors: c.wakeFail.Load(),
		Kernel: xsk.KernelStats{
			// A frame for a port that is down or closed never reaches a socket,
			// but a test wants to see where it went.
			RxDropped:       c.rxDropped.Load() + c.rxLost.Load(),
			RxInvalidDescs:  c.rxInvalid.Load(),
			TxInvalidDescs:  c.txInvalid.Load(),
			RxRingFull:      c.rxFull.Load(),
			RxFillRingEmpty: c.rxNoFill.Load(),
		},
	}
}
