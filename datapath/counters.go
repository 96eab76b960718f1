package datapath

import (
	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// counter names one counter of a worker beyond those of the engine and the
// parser.
type counter uint8

const (
	ctrUnknownQPN       counter = iota // frames to a queue pair that does not exist (any more)
	ctrHandover                        // frames handed to another worker
	ctrHandoverFull                    // frames dropped because the other worker did not keep up
	ctrLoopback                        // packets between queue pairs of this device
	ctrTxFull                          // kicks after which the port still had frames
	ctrKickErrors                      // kicks that failed, mostly for the interface being down
	ctrFillErrors                      // drivers that could not be told of new frames
	ctrBadDescriptor                   // descriptors or completions that cannot be
	ctrFlightForgotten                 // times that all in flight was taken for lost, see budgetPatience
	ctrBackgroundRounds                // rounds of the background goroutine
	ctrMulticast                       // multicast datagrams that have arrived, own ones included
	ctrMulticastCopies                 // those that queue pairs were given
	ctrUnknownGroup                    // multicast datagrams to a group that nobody is attached to (any more)
	ctrNoCopy                          // copies for another worker dropped for want of a free frame
	ctrVLAN                            // frames from a VLAN that the address they are for is not in
	ctrNoAddress                       // packets not sent: their source address is gone, or the next hop unknown
	ctrTooLong                         // packets not sent: the link's MTU has become too small for them

	numCounters
)

var counterNames = [numCounters]string{
	"drop_unknown_qpn", "handover_pkts", "drop_handover_full", "loopback_pkts", "tx_ring_full", "kick_errors",
	"fill_errors", "bad_descriptors", "flight_forgotten", "background_rounds",
	"multicast_pkts", "multicast_copies", "drop_unknown_group", "drop_multicast_no_frame",
	"drop_vlan", "tx_drop_no_address", "tx_drop_too_long",
}

// tally is a sum over workers.
type tally struct {
	engine      transport.Counters
	drops       [wire.NumDropReasons]uint64
	own         [numCounters]uint64
	sleeps      uint64
	sleepErrors uint64
	kept        uint64
	port        xsk.Stats
}

// add adds up what w has counted. The worker's lock is held.
func (t *tally) add(w *worker) {
	for i, v := range w.env.Counters {
		t.engine[i] += v
	}
	for i, v := range w.drops {
		t.drops[i] += v
	}
	for i, v := range w.counts {
		t.own[i] += v
	}
	t.sleeps += w.sleeps.Load()
	t.sleepErrors += w.sleepErrors.Load()
	t.kept += uint64(w.kept.kept())
}

// Counters are the counters of the device: those of Linux's rxe first, then the
// engine's others, frames that were dropped by reason, the workers' own, those of
// the sockets (xsk_) and the verdicts of the XDP program (xdp_).
func (d *Device) Counters() ([]verbs.CounterValue, error) {
	var t tally
	for _, w := range d.workers {
		if err := w.acquire(); err != nil {
			return nil, err
		}
		t.add(w)
		w.release(controller)
		st, err := w.port.Stats()
		if err != nil {
			return nil, err
		}
		addStats(&t.port, &st)
	}
	list := make([]verbs.CounterValue, 0, 96)
	put := func(name string, v uint64) { list = append(list, verbs.CounterValue{Name: name, Value: v}) }
	for c, v := range t.engine {
		put(transport.Counter(c).String(), v)
	}
	for r := wire.Accept + 1; int(r) < len(t.drops); r++ {
		put(r.String(), t.drops[r])
	}
	for c, v := range t.own {
		put(counterNames[c], v)
	}
	put("background_sleeps", t.sleeps)
	put("background_sleep_errors", t.sleepErrors)
	put("kept_pkts", t.kept)
	put("async_events_lost", d.lostEvents())
	put("unlocked_buffer_bytes", d.unlocked.Load())
	putStats(put, &t.port)
	verdicts, err := d.steer.Counters()
	if err != nil {
		return nil, err
	}
	for _, c := range verdicts {
		put("xdp_"+c.Name, c.Value)
	}
	return list, nil
}

func addStats(sum, s *xsk.Stats) {
	for _, p := range []struct {
		to   *uint64
		from uint64
	}{
		{&sum.RxFrames, s.RxFrames}, {&sum.RxBuffers, s.RxBuffers}, {&sum.RxBytes, s.RxBytes},
		{&sum.TxFrames, s.TxFrames}, {&sum.TxBuffers, s.TxBuffers}, {&sum.TxBytes, s.TxBytes},
		{&sum.Kicks, s.Kicks}, {&sum.KickAgain, s.KickAgain}, {&sum.KickBusy, s.KickBusy}, {&sum.KickNoBufs, s.KickNoBufs},
		{&sum.Kernel.RxDropped, s.Kernel.RxDropped}, {&sum.Kernel.RxInvalidDescs, s.Kernel.RxInvalidDescs},
		{&sum.Kernel.TxInvalidDescs, s.Kernel.TxInvalidDescs}, {&sum.Kernel.RxRingFull, s.Kernel.RxRingFull},
		{&sum.Kernel.RxFillRingEmpty, s.Kernel.RxFillRingEmpty}, {&sum.Kernel.TxRingEmpty, s.Kernel.TxRingEmpty},
	} {
		*p.to += p.from
	}
}

func putStats(put func(string, uint64), s *xsk.Stats) {
	put("xsk_rx_frames", s.RxFrames)
	put("xsk_rx_buffers", s.RxBuffers)
	put("xsk_rx_bytes", s.RxBytes)
	put("xsk_tx_frames", s.TxFrames)
	put("xsk_tx_buffers", s.TxBuffers)
	put("xsk_tx_bytes", s.TxBytes)
	put("xsk_kicks", s.Kicks)
	put("xsk_kick_again", s.KickAgain)
	put("xsk_kick_busy", s.KickBusy)
	put("xsk_kick_no_bufs", s.KickNoBufs)
	put("xsk_rx_dropped", s.Kernel.RxDropped)
	put("xsk_rx_invalid_descs", s.Kernel.RxInvalidDescs)
	put("xsk_tx_invalid_descs", s.Kernel.TxInvalidDescs)
	put("xsk_rx_ring_full", s.Kernel.RxRingFull)
	put("xsk_rx_fill_ring_empty", s.Kernel.RxFillRingEmpty)
	put("xsk_tx_ring_empty", s.Kernel.TxRingEmpty)
}
