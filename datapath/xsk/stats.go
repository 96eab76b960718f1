package xsk

import "golang.org/x/sys/unix"

// Stats are the counters of a port since it was made.
type Stats struct {
	// RxFrames, RxBuffers and RxBytes were received, TxFrames, TxBuffers and
	// TxBytes submitted. A frame has one buffer or more.
	RxFrames, RxBuffers, RxBytes uint64
	TxFrames, TxBuffers, TxBytes uint64
	// Filled counts frames lent to the kernel, Completed buffers whose
	// transmission was done.
	Filled, Completed uint64
	// Kicks counts transmit calls. KickAgain, KickBusy, KickNoBufs and
	// KickInterrupted count those answered EAGAIN, EBUSY, ENOBUFS or ENOMEM,
	// and EINTR. KickBusy calls dropped a frame each, at the device.
	Kicks, KickAgain, KickBusy, KickNoBufs, KickInterrupted uint64
	// KickLater counts Kicks that left descriptors queued because the kernel
	// could not take them, KickErrors those that returned an error.
	KickLater, KickErrors uint64
	// FillWakeups counts calls of WakeFill, FillWakeupErrors those that failed.
	FillWakeups, FillWakeupErrors uint64

	Kernel KernelStats
}

// KernelStats are the kernel's own counters of a socket (XDP_STATISTICS).
type KernelStats struct {
	// RxDropped counts frames dropped for reasons without a counter of their
	// own, such as a frame larger than its buffer without MultiBuffer.
	RxDropped uint64
	// RxInvalidDescs counts addresses in the fill ring outside the UMEM.
	RxInvalidDescs uint64
	// TxInvalidDescs counts submitted descriptors that were discarded because
	// they reach outside their frame or the UMEM, have options that the
	// socket does not allow, or make a frame of too many buffers. They are
	// not completed.
	TxInvalidDescs uint64
	// RxRingFull counts frames dropped because nobody received.
	RxRingFull uint64
	// RxFillRingEmpty counts frames dropped for want of filled frames.
	RxFillRingEmpty uint64
	// TxRingEmpty counts times that the kernel found nothing to transmit.
	TxRingEmpty uint64
}

// Stats returns the counters. Safe from any goroutine.
func (s *Socket) Stats() (Stats, error) {
	r, t := &s.rx, &s.tx
	st := Stats{
		RxFrames: r.frames.Load(), RxBuffers: r.buffers.Load(), RxBytes: r.bytes.Load(),
		TxFrames: t.frames.Load(), TxBuffers: t.buffers.Load(), TxBytes: t.bytes.Load(),
		Filled: r.filled.Load(), Completed: t.completed.Load(),
		Kicks: t.kicks.Load(), KickAgain: t.again.Load(), KickBusy: t.busy.Load(),
		KickNoBufs: t.noBufs.Load(), KickInterrupted: t.intr.Load(),
		KickLater: t.later.Load(), KickErrors: t.kickFail.Load(),
		FillWakeups: r.wakeups.Load(), FillWakeupErrors: r.wakeFail.Load(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 {
		return st, &Error{Op: opStats, Ifindex: s.ifindex, Queue: s.queue, Kind: ErrClosed}
	}
	// Kernels before 5.9 fill in the first three and leave the rest zero.
	var k unix.XDPStatistics
	if _, err := getsockopt(s.fd, unix.XDP_STATISTICS, &k); err != nil {
		return st, s.explain(opStats, err)
	}
	st.Kernel = KernelStats{
		RxDropped: k.Rx_dropped, RxInvalidDescs: k.Rx_invalid_descs, TxInvalidDescs: k.Tx_invalid_descs,
		RxRingFull: k.Rx_ring_full, RxFillRingEmpty: k.Rx_fill_ring_empty_descs, TxRingEmpty: k.Tx_ring_empty_descs,
	}
	return st, nil
}
