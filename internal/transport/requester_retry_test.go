package transport

import (
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

const reqTimeout = 4096 << 14 * time.Nanosecond // of reqDefaults

// Going back inside a message continues it: same opcodes, no second RETH.
func TestReqGoBack(t *testing.T) {
	for _, c := range []struct {
		name string
		nak  int
		want []string
	}{
		{"to the first", 0, []string{"WRITE_FIRST 0 [+0 700] 256B", "WRITE_MIDDLE 1 256B", "WRITE_LAST 2 188B A", "SEND_FIRST 3 256B", "SEND_LAST 4 1B A"}},
		{"to a middle", 1, []string{"WRITE_MIDDLE 1 256B", "WRITE_LAST 2 188B A", "SEND_FIRST 3 256B", "SEND_LAST 4 1B A"}},
		{"to a last", 2, []string{"WRITE_LAST 2 188B A", "SEND_FIRST 3 256B", "SEND_LAST 4 1B A"}},
		{"to the next message", 3, []string{"SEND_FIRST 3 256B", "SEND_LAST 4 1B A"}},
		{"to the end", 4, []string{"SEND_LAST 4 1B A"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			reqEach(t, nil, func(r *reqRig) {
				r.write(700)
				r.send(257)
				r.poll()
				r.nak(c.nak)
				r.expect(c.want...)
				r.counted(RcvdSeqErr, 1)
				r.ack(4)
				r.done("1 SUCCESS", "2 SUCCESS")
			})
		})
	}
}

// Every packet of a burst behind a loss may report it: one repetition until
// there is progress.
func TestReqOneRestartPerLoss(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.send(4 * reqMTU)
		r.poll()
		r.nak(1)
		r.nak(1)
		r.expect("SEND_MIDDLE 1 256B", "SEND_MIDDLE 2 256B", "SEND_LAST 3 256B A")
		r.nak(1)
		r.expect()
		r.nak(0) // older than what is acknowledged
		r.expect()
		r.nak(2) // progress: a new loss
		r.expect("SEND_MIDDLE 2 256B", "SEND_LAST 3 256B A")
		r.counted(CompleterRetryErr, 2)
		r.inState(ibv.QPStateRTS)
	})
}

// The timer runs from the first outstanding packet and starts again with every
// progress.
func TestReqAckTimeout(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.qp.Poll(r.now, r.tx)
		r.deadline(0)
		r.send(1)
		r.send(2 * reqMTU)
		r.poll()
		r.deadline(reqTimeout)
		r.pass(reqTimeout / 2)
		r.send(1)
		r.poll()
		r.deadline(reqTimeout / 2) // sending more changes nothing
		r.ack(-1)
		r.deadline(reqTimeout / 2) // nor does a repeated ACK
		r.ack(0)
		r.poll()
		r.deadline(reqTimeout)
		r.pass(reqTimeout - 1)
		r.expect()
		r.pass(1)
		r.expect("SEND_FIRST 1 256B", "SEND_LAST 2 256B A", "SEND_ONLY 3 1B A")
		r.deadline(2 * reqTimeout) // a late peer is given more time
		r.ack(3)
		r.expect()
		r.deadline(0)
	})
}

func TestReqAckTimeoutValues(t *testing.T) {
	for _, c := range []struct {
		code uint8
		want time.Duration
	}{{0, 0}, {1, 8192}, {14, 67108864}, {31, 4096 << 31}} {
		k := reqDefaults()
		k.timeout = c.code
		r := newReqRig(t, k)
		r.send(1)
		r.poll()
		r.deadline(c.want)
	}
}

// retry_cnt repetitions without progress, then RETRY_EXC_ERR. 7 means seven.
func TestReqRetryCount(t *testing.T) {
	for _, retry := range []uint8{0, 1, 3, 7} {
		reqEach(t, func(c *reqConfig) { c.retry = retry }, func(r *reqRig) {
			r.send(1)
			r.send(1)
			r.expect("SEND_ONLY 0 1B A", "SEND_ONLY 1 1B A")
			for i := range retry {
				r.pass(reqTimeout<<min(i, 2) - 1)
				r.expect()
				r.pass(1)
				r.expect("SEND_ONLY 0 1B A", "SEND_ONLY 1 1B A")
			}
			r.pass(reqTimeout << min(retry, 2)) // four times as long at most
			r.expect()
			r.failed("1 RETRY_EXC_ERR", 2, 1)
			r.counted(RetryExceededErr, 1)
			r.counted(CompleterRetryErr, uint64(retry))
		})
	}
}

// Progress gives all repetitions back, NAKs and timeouts count together.
func TestReqRetryCountStartsAnew(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.retry = 2 }, func(r *reqRig) {
		r.send(2 * reqMTU)
		r.poll()
		r.nak(0)
		r.poll()
		r.pass(reqTimeout)
		r.expect("SEND_FIRST 0 256B", "SEND_LAST 1 256B A")
		r.ack(0)
		r.pass(reqTimeout)
		r.expect("SEND_LAST 1 256B A")
		r.pass(2 * reqTimeout)
		r.expect("SEND_LAST 1 256B A")
		r.nak(1) // the timer has restarted just now
		r.expect()
		r.inState(ibv.QPStateRTS)
		r.pass(4 * reqTimeout)
		r.expect()
		r.failed("1 RETRY_EXC_ERR", 2, 0)
	})
}

func TestReqNoRetriesAtAll(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.retry = 0 }, func(r *reqRig) {
		r.send(1)
		r.poll()
		r.nak(0)
		r.failed("1 RETRY_EXC_ERR", 2, 0)
	})
}

func TestReqRNR(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.send(1)
		r.send(1)
		r.poll()
		r.rnrNak(1, 5) // 60 us
		r.done("1 SUCCESS")
		r.expect()
		r.stopped(reqRNR)
		r.deadline(60 * time.Microsecond)
		r.send(1) // nothing new is sent either
		r.pass(60*time.Microsecond - 1)
		r.expect()
		r.pass(1)
		r.expect("SEND_ONLY 1 1B A", "SEND_ONLY 2 1B A")
		r.deadline(reqTimeout)
		r.ack(2)
		r.done("2 SUCCESS", "3 SUCCESS")
		r.counted(RcvdRNRErr, 1)
		r.counted(CompleterRetryErr, 0)
	})
}

// The pause is what the timer code says; 0 is the longest.
func TestReqRNRTimerCodes(t *testing.T) {
	for code, want := range map[uint8]time.Duration{
		0: 655360 * time.Microsecond, 1: 10 * time.Microsecond, 12: 640 * time.Microsecond, 31: 491520 * time.Microsecond,
	} {
		r := newReqRig(t, reqDefaults())
		r.send(1)
		r.poll()
		r.rnrNak(0, code)
		r.poll()
		r.deadline(want)
	}
}

// A responder with an empty queue sends an RNR NAK for the first packet of a
// burst and a sequence NAK with the same PSN for the second.
func TestReqNakDuringRNR(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.retry = 2 }, func(r *reqRig) {
		r.send(3 * reqMTU)
		r.poll()
		r.rnrNak(0, 1)
		r.nak(0)
		r.nak(0)
		r.rnrNak(0, 1) // the network's copy
		r.expect()
		r.counted(CompleterRetryErr, 0)
		r.pass(10 * time.Microsecond)
		r.expect("SEND_FIRST 0 256B", "SEND_MIDDLE 1 256B", "SEND_LAST 2 256B A")
		// After the pause a sequence NAK is a new loss, even if one was reported
		// before the pause.
		r.nak(0)
		r.rnrNak(0, 1)
		r.pass(10 * time.Microsecond)
		r.poll()
		r.nak(0)
		r.expect("SEND_FIRST 0 256B", "SEND_MIDDLE 1 256B", "SEND_LAST 2 256B A")
		r.ack(2)
		r.done("1 SUCCESS")
	})
}

// What acknowledges the paused request ends the pause.
func TestReqAckDuringRNR(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		r.send(1)
		r.send(1)
		r.poll()
		r.rnrNak(0, 31)
		r.ack(0)
		r.done("1 SUCCESS")
		r.expect("SEND_ONLY 1 1B A")
	})
}

func TestReqRNRRetryCount(t *testing.T) {
	for _, limit := range []uint8{0, 1, 6} {
		reqEach(t, func(c *reqConfig) { c.rnr = limit }, func(r *reqRig) {
			r.send(1)
			r.send(1)
			r.poll()
			for range limit {
				r.rnrNak(0, 1)
				r.pass(10 * time.Microsecond)
				r.expect("SEND_ONLY 0 1B A", "SEND_ONLY 1 1B A")
			}
			r.rnrNak(0, 1)
			r.failed("1 RNR_RETRY_EXC_ERR", 2, 1)
			r.counted(RetryRNRExceededErr, 1)
		})
	}
}

func TestReqRNRForEver(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.rnr, c.retry = 7, 1 }, func(r *reqRig) {
		r.send(1)
		r.poll()
		for range 100 {
			r.rnrNak(0, 1)
			r.pass(10 * time.Microsecond)
			r.expect("SEND_ONLY 0 1B A")
			// Timeouts in between are not consecutive.
			r.pass(reqTimeout)
			r.expect("SEND_ONLY 0 1B A")
		}
		r.ack(0)
		r.done("1 SUCCESS")
	})
}

// Progress gives the RNR retries back.
func TestReqRNRRetryStartsAnew(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.rnr = 1 }, func(r *reqRig) {
		for k := range 5 {
			r.send(1)
			r.poll()
			r.rnrNak(k, 1)
			r.pass(10 * time.Microsecond)
			r.poll()
			r.ack(k)
		}
		r.inState(ibv.QPStateRTS)
		r.counted(RcvdRNRErr, 5)
	})
}

// A repetition passes credits on: the READs that are asked for again count, not
// those of the first sending too.
func TestReqCreditsAfterGoingBack(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.rd, c.batch = 2, 3 }, func(r *reqRig) {
		for range 4 {
			r.read(4)
		}
		r.expect("READ_REQUEST 0 [+0 4] A", "READ_REQUEST 1 [+0 4] A")
		r.pass(reqTimeout)
		r.expect("READ_REQUEST 0 [+0 4] A", "READ_REQUEST 1 [+0 4] A")
		r.answer(0, 4, 0, 1)
		r.expect("READ_REQUEST 2 [+0 4] A")
		r.pass(2 * reqTimeout)
		r.expect("READ_REQUEST 1 [+0 4] A", "READ_REQUEST 2 [+0 4] A")
		// Answers to the first sending, before and while it is repeated.
		r.pass(2 * reqTimeout)
		r.tx.Reset(1)
		r.qp.Poll(r.now, r.tx)
		r.answer(1, 4, 0, 1)
		r.answer(2, 4, 0, 1)
		r.expect("READ_REQUEST 3 [+0 4] A")
		r.answer(3, 4, 0, 1)
		for range 3 {
			r.read(4)
		}
		r.expect("READ_REQUEST 4 [+0 4] A", "READ_REQUEST 5 [+0 4] A")
	})
}

// A fenced request that had begun is repeated without waiting for itself.
func TestReqFencedReadIsRepeated(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.window, c.rd = 4, 2 }, func(r *reqRig) {
		r.post(queue.SendWQE{Opcode: ibv.WRRDMARead, Flags: ibv.SendFence, NumSGE: 1, Length: 4 * reqMTU, RemoteAddr: reqVA}, r.sge(0, 4*reqMTU))
		r.expect("READ_REQUEST 0 [+0 512] A", "READ_REQUEST 2 [+512 512] A")
		r.pass(reqTimeout)
		r.expect("READ_REQUEST 0 [+0 512] A", "READ_REQUEST 2 [+512 512] A")
		r.resp(wire.ReadRespFirst, 0, make([]byte, reqMTU))
		r.pass(reqTimeout)
		r.expect("READ_REQUEST 1 [+256 256] A", "READ_REQUEST 2 [+512 512] A")
	})
}
