package main

import (
	"time"

	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// faults are the rows that must fail, or wait, as the specification has it. What
// rdma_rxe does otherwise is told by the responder's name.
var faults = []struct {
	name                string
	timeout, retry, rnr int // exponent of 4.096 us; attempts
	run                 func(t *trial)
}{
	{"WRITE_BAD_RKEY", 18, 7, 7, badKey(verbs.OpRDMAWrite)},
	{"READ_BAD_RKEY", 18, 7, 7, badKey(verbs.OpRDMARead)},
	{"ATOMIC_BAD_RKEY", 18, 7, 7, badKey(verbs.OpAtomicFetchAdd)},
	{"ATOMIC_WRITE_BAD_RKEY", 18, 7, 7, badKey(verbs.OpAtomicWrite)},
	{"FLUSH_BAD_RKEY", 18, 7, 7, badKey(verbs.OpFlush)},
	{"WRITE_OUT_OF_RANGE", 18, 7, 7, outOfRange},
	{"READ_OUT_OF_RANGE", 18, 7, 7, readOutOfRange},
	{"WINDOW_OUT_OF_RANGE", 18, 7, 7, outOfWindow},
	{"ATOMIC_WITHOUT_RIGHT", 18, 7, 7, noAtomicRight},
	{"SEND_TOO_LONG", 18, 7, 7, sendTooLong},
	{"ATOMIC_MISALIGNED", 18, 7, 7, misaligned(verbs.OpAtomicFetchAdd)},
	{"ATOMIC_WRITE_MISALIGNED", 18, 7, 7, misaligned(verbs.OpAtomicWrite)},
	{"INVALIDATE_REGION", 17, 1, 7, invalidateRegion},
	{"RNR", 18, 7, 7, notReady},
	{"RNR_BURST", 18, 7, 7, notReadyBurst},
	{"RNR_WRITE_WITH_IMM", 18, 7, 7, notReadyWrite},
	{"RNR_EXCEEDED", 18, 7, 2, neverReady},
	{"RETRY_EXCEEDED", 17, 2, 7, noAnswer},
}

func badKey(op verbs.Opcode) func(*trial) {
	return func(t *trial) {
		const n = 8
		before := t.clear(t.resp, n)
		unread := t.clear(t.req, n)
		id := t.post(request{Op: op, Off: word, N: n, Addr: word, RKey: t.respEnd.RKey ^ 0xff})
		t.refused(id, verbs.WCRemoteAccess)
		t.same(t.resp, target-guard, before)
		t.same(t.req, target-guard, unread)
	}
}

// refused demands that the request fails, that what is posted behind it is
// flushed, and that both queue pairs are in error.
func (t *trial) refused(id uint64, status verbs.WCStatus) {
	t.completes(t.req, id, status)
	t.in(t.req, verbs.QPStateErr)
	t.in(t.resp, verbs.QPStateErr)
	late := t.post(request{Op: verbs.OpRDMAWrite, Off: source, N: 8, Addr: target})
	t.completes(t.req, late, verbs.WCFlushed)
}

// outOfRange ends one byte behind the region; not one byte of it is placed.
func outOfRange(t *trial) {
	const n = 5000
	t.fill(t.resp, regionLen-n, n, "end")
	id := t.post(request{Op: verbs.OpRDMAWrite, Off: source, N: n, Addr: regionLen - n + 1})
	t.refused(id, verbs.WCRemoteAccess)
	t.same(t.resp, regionLen-n, data("end", n))
}

func sendTooLong(t *trial) {
	before := t.clear(t.resp, 128)
	r := t.recv(64)
	id := t.post(request{Op: verbs.OpSend, Off: source, N: 128})
	// rdma_rxe answers with another NAK than the specification's, and completes
	// its receive with another status.
	status, received := verbs.WCRemoteInvalidRequest, verbs.WCLocalLength
	if t.resp.name() == rxeName {
		status, received = verbs.WCRemoteOperation, verbs.WCLocalQPOperation
	}
	t.refused(id, status)
	t.completes(t.resp, r, received)
	t.same(t.resp, target-guard, before)
}

// readOutOfRange begins one byte before the end of the region.
func readOutOfRange(t *trial) {
	unread := t.clear(t.req, 16)
	id := t.post(request{Op: verbs.OpRDMARead, Off: target, N: 16, Addr: regionLen - 1})
	t.refused(id, verbs.WCRemoteAccess)
	t.same(t.req, target-guard, unread)
}

// outOfWindow writes one byte more than a window has, within its region. rdma_rxe
// looks at the region's bounds only.
func outOfWindow(t *trial) {
	const n = 3000
	before := t.clear(t.resp, n)
	if t.err != nil {
		return
	}
	key, err := t.resp.window(target, n-1)
	t.try(t.resp, "bind window", err)
	t.fill(t.req, source, n, "beyond")
	id := t.post(request{Op: verbs.OpRDMAWrite, Off: source, N: n, Addr: target, RKey: key})
	if t.resp.name() == rxeName {
		t.completesAs(t.req, id, verbs.WCRDMAWrite)
		t.placed(t.resp, before, "beyond")
		return
	}
	t.refused(id, verbs.WCRemoteAccess)
	t.same(t.resp, target-guard, before)
}

// noAtomicRight adds through a window that may be read and written.
func noAtomicRight(t *trial) {
	t.setWord(t.resp, 5)
	if t.err != nil {
		return
	}
	key, err := t.resp.window(word, 8)
	t.try(t.resp, "bind window", err)
	id := t.post(request{Op: verbs.OpAtomicFetchAdd, Off: target, N: 8, Addr: word, Cmp: 1, RKey: key})
	t.refused(id, verbs.WCRemoteAccess)
	t.sameWord(t.resp, word, 5)
}

func misaligned(op verbs.Opcode) func(*trial) {
	return func(t *trial) {
		t.setWord(t.resp, 5)
		id := t.post(request{Op: op, Off: word, N: 8, Addr: word + 4, Cmp: 1})
		t.refused(id, verbs.WCRemoteInvalidRequest)
		t.sameWord(t.resp, word, 5)
	}
}

// invalidateRegion names the key of a region, which no peer may invalidate: the
// responder says nothing, and the requester gives up. rdma_rxe acknowledges the
// SEND although its own receive fails.
func invalidateRegion(t *trial) {
	r := t.recv(64)
	id := t.post(request{Op: verbs.OpSendWithInv, Off: source, N: 64, RKey: t.respEnd.RKey})
	t.completes(t.resp, r, verbs.WCRemoteInvalidRequest)
	t.in(t.resp, verbs.QPStateErr)
	if t.resp.name() == rxeName {
		t.completesAs(t.req, id, verbs.WCSend)
		return
	}
	t.completes(t.req, id, verbs.WCRetryExceeded)
	t.in(t.req, verbs.QPStateErr)
}

// notReady sends before there is a receive.
func notReady(t *trial) {
	const n = 3000
	t.fill(t.req, source, n, "rnr")
	before := t.clear(t.resp, n)
	id := t.post(request{Op: verbs.OpSend, Off: source, N: n})
	t.pause(100 * time.Millisecond)
	t.quiet(t.req)
	r := t.recv(n)
	t.completesAs(t.req, id, verbs.WCSend)
	t.receives(r, verbs.WCRecv, n, 0, 0)
	t.placed(t.resp, before, "rnr")
	t.in(t.req, verbs.QPStateRTS)
	t.in(t.resp, verbs.QPStateRTS)
}

// notReadyBurst has several requests on the way when the receiver is not ready,
// which look like a gap to it.
func notReadyBurst(t *trial) {
	const n = 3000
	t.fill(t.req, source, n, "burst")
	var ids, rs []uint64
	rs = append(rs, t.recv(n))
	for range 4 {
		ids = append(ids, t.post(request{Op: verbs.OpSend, Off: source, N: n}))
	}
	t.pause(100 * time.Millisecond)
	for range 3 {
		rs = append(rs, t.recv(n))
	}
	for i := range ids {
		t.completesAs(t.req, ids[i], verbs.WCSend)
		t.receives(rs[i], verbs.WCRecv, n, 0, 0)
	}
	t.same(t.resp, target, data("burst", n))
}

// notReadyWrite writes with an immediate before there is a receive for it.
func notReadyWrite(t *trial) {
	const n = 3000
	t.fill(t.req, source, n, "rnr")
	before := t.clear(t.resp, n)
	id := t.post(request{Op: verbs.OpRDMAWriteWithImm, Off: source, N: n, Addr: target, Imm: immediate})
	t.pause(100 * time.Millisecond)
	t.quiet(t.req)
	r := t.recv(0)
	t.completesAs(t.req, id, verbs.WCRDMAWrite)
	t.receives(r, verbs.WCRecvRDMAWithImm, n, verbs.WCWithImm, immediate)
	t.placed(t.resp, before, "rnr")
}

func neverReady(t *trial) {
	id := t.post(request{Op: verbs.OpSend, Off: source, N: 16})
	t.completes(t.req, id, verbs.WCRNRRetryExceeded)
	t.in(t.req, verbs.QPStateErr)
	t.in(t.resp, verbs.QPStateRTS)
}

// noAnswer has every packet of the requester dropped.
func noAnswer(t *trial) {
	t.drop(match{op: wire.SendOnly, psn: requesterPSN, forever: true})
	id := t.post(request{Op: verbs.OpSend, Off: source, N: 16})
	t.completes(t.req, id, verbs.WCRetryExceeded)
	t.in(t.req, verbs.QPStateErr)
	t.in(t.resp, verbs.QPStateRTS)
	t.dropped()
}

func (t *trial) pause(d time.Duration) {
	if t.err == nil {
		time.Sleep(d)
	}
}
