package transport_test

import (
	"time"

	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

const (
	simRing  = 64 << 10 // bytes that a host's transmit ring has on the way to the wire
	simBatch = 16       // packets of one Poll
)

// simHost is a host with a driver as the real one: what arrives is run through
// its queue pair, and queue pairs are polled in turns while the transmit ring has
// room.
type simHost struct {
	sim  *netSim
	num  int
	env  *Env
	mem  *memory.Table
	tx   *Batch
	qps  []*simQP
	turn int // of qps, who is polled next

	ready  mono.Time     // when the ring has room again
	asleep mono.Time     // until when the host does nothing
	inbox  [][]byte      // what has come meanwhile
	each   time.Duration // that a packet of inbox takes
	pkt    wire.Packet
	refs   uint64
	kept   int
	frame  []byte
}

func (s *netSim) addHost(keep int) *simHost {
	seed := uint32(len(s.hosts))
	table := memory.NewTable(64, func() uint32 { seed = seed*1664525 + 1013904223; return seed })
	h := &simHost{sim: s, num: len(s.hosts), env: NewEnv(table), mem: table, tx: NewBatch(simBatch), frame: make([]byte, 8192)}
	h.env.KeepBudget = keep
	s.hosts = append(s.hosts, h)
	return h
}

// next is when transmit has something to do.
func (h *simHost) next() mono.Time {
	due := mono.Never
	if len(h.inbox) > 0 {
		return h.asleep
	}
	for _, q := range h.qps {
		if q.wants {
			due = h.sim.now
			break
		}
		due = mono.Min(due, q.qp.NextDeadline())
	}
	if due == mono.Never {
		return due
	}
	return later(due, later(h.ready, h.asleep))
}

// pause lets the host do nothing for some time, as one does whose CPU others use.
func (h *simHost) pause(d time.Duration) { h.asleep = h.sim.now.Add(d) }

// wake handles what has come while the host slept: all at once, or one packet at a
// time where each takes some.
func (h *simHost) wake() {
	n := len(h.inbox)
	if h.each > 0 && n > 0 {
		n = 1
		h.pause(h.each)
	}
	for _, frame := range h.inbox[:n] {
		h.handle(frame)
	}
	h.inbox = h.inbox[n:]
}

// transmit polls queue pairs in turns until none has anything or the ring is full.
func (h *simHost) transmit() {
	idle := 0
	for idle < len(h.qps) {
		if h.full() {
			return
		}
		q := h.qps[h.turn]
		h.turn = (h.turn + 1) % len(h.qps)
		idle++
		if !q.wants && q.qp.NextDeadline() > h.sim.now {
			continue
		}
		h.tx.Reset(simBatch)
		q.wants = q.qp.Poll(h.sim.now, h.tx)
		for i := range h.tx.Intents {
			idle = 0
			h.send(q, &h.tx.Intents[i])
		}
		h.settle()
		q.collect()
	}
}

// full reports whether the ring has no room, and notes when it has.
func (h *simHost) full() bool {
	waiting := h.sim.net.Backlog(h.sim.now, h.num)
	if waiting < simRing {
		return false
	}
	h.ready = h.sim.now.Add(time.Duration(int64(waiting-simRing/2) * 8 * int64(time.Second) / h.sim.rate))
	return true
}

func (h *simHost) send(q *simQP, in *Intent) {
	size := q.path.Len() + in.HdrLen + in.Len + wire.PadLen(in.Len) + wire.ICRCLen
	frame := h.frame[:size]
	ib := frame[q.path.Put(frame, size-q.path.Len(), 0):]
	copy(ib, in.Hdr[:in.HdrLen])
	if !h.tx.Gather(in, ib[in.HdrLen:in.HdrLen+in.Len]) {
		h.sim.Fatal("payload is gone")
	}
	// Nothing is corrupted here: the ICRC is not looked at.
	if h.sim.trace {
		h.sim.logf("%d -> %d %v", h.num, q.peer, describePacket(ib, in.Len))
	}
	h.sim.net.Send(h.sim.now, h.num, q.peer, frame)
}

func (h *simHost) receive(frame []byte) {
	if h.sim.now < h.asleep || len(h.inbox) > 0 {
		h.inbox = append(h.inbox, frame)
		return
	}
	h.handle(frame)
}

func (h *simHost) handle(frame []byte) {
	h.refs++
	h.pkt = wire.Packet{Ref: h.refs}
	if r := h.pkt.ParseHeaders(frame); r != wire.Accept {
		h.sim.Fatalf("host %d: %v", h.num, r)
	}
	q := h.qps[h.pkt.Hdr().DestQP()-simQPN]
	if q.qp.HandlePacket(h.sim.now, &h.pkt) == Keep {
		h.kept++
	}
	h.settle()
	q.collect()
}

// settle takes frames back.
func (h *simHost) settle() {
	h.kept -= len(h.env.Released)
	h.env.Released, h.env.Woken, h.env.Events = h.env.Released[:0], h.env.Woken[:0], h.env.Events[:0]
}
