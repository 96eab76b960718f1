package transport

import (
	"testing"
	"time"
)

// lateAnswer is when answers come that are not prompt.
const lateAnswer = reqTimeout / 4

// count polls and wants n packets.
func (r *reqRig) count(n int) {
	r.Helper()
	if got := r.poll(); len(got) != n {
		r.Errorf("%d packets, want %d", len(got), n)
	}
}

// lateRig has sent 64 packets of a SEND of 100, and 16 again after a timeout.
func lateRig(t *testing.T, f func(*reqRig)) {
	reqEach(t, func(c *reqConfig) { c.window, c.batch = 64, 128 }, func(r *reqRig) {
		r.send(100 * reqMTU)
		r.count(64)
		r.pass(reqTimeout)
		r.count(16)
		f(r)
	})
}

// What was sent before the timeout is answered late: nothing more is repeated.
func TestLateAnswersAreAwaited(t *testing.T) {
	lateRig(t, func(r *reqRig) {
		r.pass(lateAnswer)
		r.ack(7)
		r.count(0)
		r.deadline(firstRepeatWait)
		r.pass(firstRepeatWait - 1)
		r.ack(39) // the window is whole again
		r.count(36)
		r.deadline(firstRepeatWait) // for the answers up to 63
		r.ack(63)
		r.count(0)
		r.deadline(2 * reqTimeout)
		r.ack(99)
		r.done("1 SUCCESS")
		r.counted(RepeatedPkts, 16)
		r.counted(CompleterRetryErr, 1)
	})
}

// A prompt answer is one to the repetition: the rest is repeated too.
func TestLateIsNotWhoAnswersPromptly(t *testing.T) {
	lateRig(t, func(r *reqRig) {
		r.pass(firstRepeatWait)
		r.ack(15)
		r.count(32)
		r.deadline(reqTimeout)
	})
}

// The answers that are awaited do not come: a few packets are repeated, without a
// retry, and the next answer says again what that was.
func TestLateAnswersDoNotCome(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer time.Duration // after that repetition
		want   int           // packets sent for it
	}{{"lost", firstRepeatWait, 32}, {"late again", firstRepeatWait + 1, 0}} {
		t.Run(c.name, func(t *testing.T) {
			lateRig(t, func(r *reqRig) {
				r.pass(lateAnswer + 1)
				r.ack(15)
				r.count(0)
				r.pass(firstRepeatWait)
				r.count(16)
				r.counted(CompleterRetryErr, 1)
				r.deadline(reqTimeout - firstRepeatWait) // which runs on
				r.pass(c.answer)
				r.ack(31)
				r.count(c.want)
			})
		})
	}
}

// What is known to be lost is repeated at once.
func TestLateAnswersShowALoss(t *testing.T) {
	lateRig(t, func(r *reqRig) {
		r.pass(lateAnswer)
		r.ack(7)
		r.nak(10)
		r.count(64)
		r.counted(CompleterRetryErr, 2)
		r.ack(63)
		r.count(26)
		r.deadline(reqTimeout)
	})
}

// An RNR NAK is no late answer: all is sent again after the pause.
func TestLateAndNotReady(t *testing.T) {
	lateRig(t, func(r *reqRig) {
		r.pass(lateAnswer)
		r.rnrNak(0, 1)
		r.pass(10 * time.Microsecond)
		r.count(16)
		r.pass(lateAnswer)
		r.ack(15)
		r.count(32)
	})
}

// READs that count as sent again hold their credits; an operation on keys between
// them is not executed again, and one behind them waits for all.
func TestLateAnswersOfReads(t *testing.T) {
	keyEach(t, func(c *reqConfig) { c.window, c.rd = 64, 3 }, func(k *keyRig) {
		const n = 16 * reqMTU
		k.read(n)
		k.read(n)
		key := k.bind(k.w2, 7, 0)
		k.read(n)
		k.read(n)
		k.inval(key)
		k.expect("READ_REQUEST 0 [+0 4096] A", "READ_REQUEST 16 [+0 4096] A", "READ_REQUEST 32 [+0 4096] A")
		k.pass(reqTimeout)
		k.expect("READ_REQUEST 0 [+0 4096] A") // as large as the probe window
		k.pass(lateAnswer)
		k.answer(0, n, 0, 1)
		k.expect()
		k.stopped(reqCredit)
		k.answer(1, n-reqMTU, 0, 15)
		k.done("1 SUCCESS 4096B")
		k.expect("READ_REQUEST 48 [+0 4096] A") // the credit of the first
		k.works(key, true)
		for _, p := range []int{16, 32, 48} {
			k.expect()
			k.answer(p, n, 0, 16)
		}
		k.expect()
		k.done("2 SUCCESS 4096B", "3 SUCCESS", "4 SUCCESS 4096B", "5 SUCCESS 4096B", "6 SUCCESS")
		k.works(key, false)
		k.counted(RepeatedPkts, 1)
	})
}

// What has failed here is not counted as sent again, nor what follows it.
func TestLateAnswersBeforeAFault(t *testing.T) {
	reqEach(t, nil, func(r *reqRig) {
		for range 40 {
			r.send(1)
		}
		r.poll()
		r.qp.PayloadFault(r.now, &r.tx.Intents[30])
		r.pass(reqTimeout)
		r.count(16)
		r.pass(lateAnswer)
		r.ack(3)
		r.count(0)
		r.pass(firstRepeatWait)
		r.count(16)
		r.ack(29)
		for range 30 {
			r.done1()
		}
		r.failed("31 LOC_PROT_ERR", 32, 9)
	})
}

// Each time that a peer turns out late doubles the timeout, up to four times, for a
// while.
func TestLatePeerHasMoreTime(t *testing.T) {
	reqEach(t, func(c *reqConfig) { c.window = 64 }, func(r *reqRig) {
		at := 0
		stall := func(timeout time.Duration) {
			r.Helper()
			for range 32 {
				r.send(1)
			}
			r.count(32)
			r.deadline(timeout)
			r.pass(timeout)
			r.count(16)
			r.pass(lateAnswer)
			r.ack(at + 3)
			r.ack(at + 15) // may be of the repetition
			r.count(0)
			r.ack(at + 16) // can not
			r.ack(at + 20)
			r.ack(at + 31)
			at += 32
			r.count(0)
			r.cq.Release(32)
		}
		stall(reqTimeout)
		stall(2 * reqTimeout)
		stall(4 * reqTimeout)
		stall(4 * reqTimeout)
		r.pass(lateSpan*reqTimeout - 1)
		stall(4 * reqTimeout)
		r.pass(lateSpan * reqTimeout)
		stall(reqTimeout)
		r.counted(LocalAckTimeoutErr, 6)
	})
}

// A peer that has lost something is given no more time.
func TestLossyPeerHasNoMoreTime(t *testing.T) {
	lateRig(t, func(r *reqRig) {
		r.qp.req.fix.link = linkLossy
		r.pass(lateAnswer)
		r.ack(7)
		r.ack(20)
		r.poll()
		if d := r.qp.req.late.doublings; d != 0 {
			r.Errorf("the timeout is doubled %d times", d)
		}
	})
}
