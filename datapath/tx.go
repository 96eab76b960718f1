package datapath

import (
	"errors"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// transmit gives every queue pair that wants to send, or whose time has come,
// its turns, and sends what they have within the room that port and slots have.
// It reports whether there was anything to do.
func (w *worker) transmit(now mono.Time) bool {
	w.env.Expire(now)
	if w.timersRun(now) {
		for q := w.timers.expired(now); q != nil; q = w.timers.expired(now) {
			w.activate(q)
		}
	}
	for q := w.posted.take(); q != nil; {
		next := nextOf(q)
		w.wakeSender(q)
		q = next
	}
	if len(w.lanes) > 1 {
		w.answer()
		w.active.rise(now)
		w.divide()
	}
	w.admit(now)
	if w.active.n == 0 && !w.kick && len(w.out) == 0 {
		w.noRoom = false
		return false
	}
	if w.tx.busy() != 0 {
		w.reap()
	}
	room := w.room()
	did := false
	w.noRoom = false
	// In each pass a queue pair has one turn; passes go on while they send.
	for budget, sent := txBudget, 1; w.active.n != 0 && budget > 0 && sent != 0; {
		sent = 0
		limit := turnPackets
		if w.active.n == 1 && w.waiting == nil {
			limit = budget
		}
		for turn := w.active.n; turn > 0 && budget > 0; turn-- {
			q := w.active.pop()
			if q == nil { // the lanes of the others rest
				break
			}
			n, more := w.turn(now, q, min(limit, budget, room))
			sent, budget, room = sent+n, budget-n, room-n
			if n == 0 && more && room > 0 {
				budget -= turnPackets // it had other work, such as requests to flush
			}
			if more {
				w.activate(q)
				w.noRoom = w.noRoom || room == 0
			}
		}
		did = did || sent != 0
		w.admit(now)
	}
	w.push(now)
	return did
}

// turn polls q for at most limit packets and lays them out.
func (w *worker) turn(now mono.Time, q *qp, limit int) (n int, more bool) {
	if q.dead {
		w.settleTurn(now, q, 0, false)
		return 0, false
	}
	w.batch.Reset(limit)
	w.env.Queued = !q.admitted && !q.lane.throttled.empty()
	more = q.t.Poll(now, w.batch)
	requests, before := 0, w.laidOut
	if n = len(w.batch.Intents); n != 0 {
		// Requests go first: the peer's answer to them takes longer than what it
		// does with an acknowledgement.
		if requests = w.layOut(now, q, false); requests < n {
			w.layOut(now, q, true)
		}
		w.account(now, q.lane, n, int(w.laidOut-before))
	}
	w.settleTurn(now, q, requests, more)
	w.timers.set(q, q.t.NextDeadline())
	if s := q.t.State(); s != q.state {
		w.changed(q, s)
	}
	return n, more
}

// account counts for the client what the batch has sent.
func (w *worker) account(now mono.Time, l *lane, packets, bytes int) {
	l.sent.packets += uint64(packets)
	l.sent.bytes += uint64(bytes)
	if l.pace == nil {
		return
	}
	messages := 0
	for i := range w.batch.Intents {
		if in := &w.batch.Intents[i]; !in.Info.Response && in.Info.Pos&wire.First != 0 {
			messages++
		}
	}
	if until := l.pace.spend(now, messages, bytes); until != 0 {
		w.active.rest(l, until)
	}
}

// changed takes notice of a state that q has entered. What was posted to a queue
// before the mark is seen may not ring again, so q is polled once more.
func (w *worker) changed(q *qp, s ibv.QPState) {
	q.state = s
	failed := s == ibv.QPStateErr
	if q.failed.Load() != failed {
		q.failed.Store(failed)
		if rq := q.cfg.RQ; rq != nil { // for clients that cannot see the mark
			arm := uint32(queue.ArmNone)
			if failed {
				arm = queue.ArmNext
			}
			rq.Arm().Store(arm)
		}
		w.activate(q)
	}
}

// layOut writes the frames of the batch's responses, or of its requests, and
// returns how many of these there are.
func (w *worker) layOut(now mono.Time, q *qp, responses bool) (n int) {
	fault := false
	for i := range w.batch.Intents {
		in := &w.batch.Intents[i]
		if in.Info.Response != responses {
			continue
		}
		n++
		if fault {
			continue
		}
		if in.Info.Opcode.Operation() != wire.Acknowledge {
			w.hold.urgent = true
		}
		// What comes after a packet that fails does not make sense without it.
		if to := w.dev.wayOf(q, in); to.at == nil {
			fault = true
			q.t.AddressFault(now, in)
		} else if !w.frameOut(q, in, to) {
			fault = true
			q.t.PayloadFault(now, in)
		}
		if fault {
			w.activate(q)
		}
	}
	return n
}

// frameOut writes one frame into a slot and queues it for the port, or for this
// device. It reports false when the payload cannot be read. What must not or
// cannot be sent is lost as on a link.
func (w *worker) frameOut(q *qp, in *transport.Intent, to way) bool {
	path := &to.at.path
	pad := wire.PadLen(in.Len)
	ibLen := in.HdrLen + in.Len + pad + wire.ICRCLen
	size := path.Len() + ibLen
	switch {
	case to.at.mute:
		w.count(ctrNoAddress)
		return true
	case size-path.L3() > w.mtu && !to.at.local:
		w.count(ctrTooLong)
		return true
	}
	addr := w.tx.get()
	buf := w.mem[addr : addr+w.tx.slotSize : addr+w.tx.slotSize]
	n := path.Put(buf, ibLen, 0)
	if to.srcPort != 0 {
		wire.UDPAt(buf[n-wire.UDPLen:]).SetSrcPort(to.srcPort)
	}
	w.laidOut += uint64(size)
	n += copy(buf[n:], in.Hdr[:in.HdrLen])
	if in.Len != 0 {
		if !w.batch.Gather(in, buf[n:n+in.Len]) {
			w.tx.cancel(addr)
			return false
		}
		n += in.Len
		for range pad {
			buf[n] = 0
			n++
		}
	}
	wire.PutICRC(buf[:size], path.L3())
	if in.Info.Opcode == wire.RC|wire.Flush {
		q.flush.reICRC(buf[:size], path.Len())
	}
	if in.Info.Opcode == wire.CNP {
		setTOS(buf[:size], path.L3(), path.IPv6(), cnpTOS)
	}
	if to.at.local {
		w.tx.use(addr, 1)
		w.loop = append(w.loop, xsk.Desc{Addr: addr, Len: uint32(size)})
		w.count(ctrLoopback)
		return true
	}
	pieces := 1
	if to.group != nil {
		pieces++ // of the frame as it is received here
		w.loop = append(w.loop, xsk.Desc{Addr: addr, Len: uint32(size), Options: alsoSent})
		w.count(ctrLoopback)
	}
	frame := w.dev.share.frameSize
	for ; size > frame; pieces++ {
		w.out = append(w.out, xsk.Desc{Addr: addr, Len: uint32(frame), Options: xsk.Continued})
		addr += uint64(frame)
		size -= frame
	}
	w.out = append(w.out, xsk.Desc{Addr: addr, Len: uint32(size)})
	w.tx.use(addr, pieces)
	return true
}

// room is how many packets can be laid out now.
func (w *worker) room() int {
	free := (w.port.TxFree() - len(w.out)) / w.dev.share.slotFrames
	return max(0, min(len(w.tx.free), free))
}

// reap takes back slots whose frames are on the wire.
func (w *worker) reap() {
	for {
		n := w.port.Complete(w.addrs)
		for _, addr := range w.addrs[:n] {
			if !w.tx.done(addr) {
				w.count(ctrBadDescriptor)
			}
		}
		if n < len(w.addrs) {
			return
		}
	}
}

// push submits what is laid out and has the kernel send it.
func (w *worker) push(now mono.Time) {
	if w.lost.Load() {
		w.out, w.kick = w.out[:0], false
		return
	}
	if len(w.out) != 0 {
		n := w.port.Submit(w.out)
		w.out = w.out[:copy(w.out, w.out[n:])]
		w.kick = true
	}
	if !w.kick || w.down && now < w.retryAt || w.hold.begin(now, w.received) {
		return
	}
	w.hold.kicked()
	err := w.port.Kick()
	if err == nil {
		w.down = false
		w.kick = len(w.out) != 0 || w.port.TxPending() != 0
		if w.kick {
			w.count(ctrTxFull)
		}
		return
	}
	// What is queued stays queued: it leaves when the interface is up again.
	w.count(ctrKickErrors)
	w.down, w.retryAt = true, now.Add(retryDown)
	if !errors.Is(err, xsk.ErrDown) && !w.broken {
		w.broken = true
		w.dev.reportPort(ibv.EventDeviceFatal)
	}
}
