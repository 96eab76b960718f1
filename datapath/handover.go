package datapath

import (
	"math/bits"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// A frame arrives on the queue that its sender's socket has, or that the NIC's
// hash chose, not on that of its queue pair's worker. It is handed over: its
// descriptors go through a ring to the other worker, which reads the same memory
// and gives it back through another ring. Frames of a queue pair stay in order,
// as they come by one ring.

// handedRing is how many descriptors wait for another worker at most. Frames
// beyond that are dropped, as on a queue that is not emptied.
const handedRing = 1024

// pipe leads from one worker to another.
type pipe struct {
	frames *spsc[xsk.Desc]
	memory *spsc[uint64] // frames of the receiver that the sender is done with
}

// pipeTo is the pipe to worker t. The first frame makes it, for of the pairs of
// workers of a device with many queues few ever meet.
func (w *worker) pipeTo(t *worker) *pipe {
	at := &w.pipes[t.id]
	if p := at.Load(); p != nil {
		return p
	}
	p := &pipe{
		frames: newSPSC[xsk.Desc](handedRing),
		// All frames of a worker fit, so that none is ever lost here.
		memory: newSPSC[uint64](w.dev.share.frames()),
	}
	at.Store(p)
	return p
}

// pipeFrom is the pipe from worker i, which has said that something is in it.
func (w *worker) pipeFrom(i int) *pipe { return w.dev.workers[i].pipes[w.id].Load() }

// handOver gives a frame to worker t, whose queue pair it is for.
func (w *worker) handOver(t *worker, descs []xsk.Desc) {
	ring := w.pipeTo(t).frames
	if !ring.room(len(descs)) {
		w.count(ctrHandoverFull)
		w.freeAll(descs)
		return
	}
	for i := range descs {
		ring.add(descs[i])
	}
	w.count(ctrHandover)
	w.handed |= 1 << t.id
}

// giveBack returns a buffer to the worker that it belongs to.
func (w *worker) giveBack(addr uint64) {
	owner := int(addr / w.dev.share.perWorker)
	if owner >= len(w.dev.workers) {
		w.count(ctrBadDescriptor)
		return
	}
	ring := w.pipeTo(w.dev.workers[owner]).memory
	if !ring.room(1) { // cannot be: it holds all frames that there are
		w.count(ctrBadDescriptor)
		return
	}
	ring.add(addr)
	w.gaveBack |= 1 << owner
}

// passOn shows other workers what they got in this round.
func (w *worker) passOn() {
	for m := w.gaveBack; m != 0; m &= m - 1 {
		t := w.dev.workers[bits.TrailingZeros64(m)]
		w.pipeTo(t).memory.publish()
		t.returns.Or(1 << w.id)
		if t.hungry.Load() {
			t.notify()
		}
	}
	for m := w.handed; m != 0; m &= m - 1 {
		t := w.dev.workers[bits.TrailingZeros64(m)]
		w.pipeTo(t).frames.publish()
		t.inbox.Or(1 << w.id)
		if t.feeders.Load()&(1<<w.id) == 0 {
			t.feeders.Or(1 << w.id)
		}
		t.notify()
	}
	w.gaveBack, w.handed = 0, 0
}

// takeHanded runs frames that other workers have handed over, a batch of each.
func (w *worker) takeHanded(now mono.Time) (did bool) {
	var more uint64
	for m := w.inbox.Swap(0); m != 0; m &= m - 1 {
		from := bits.TrailingZeros64(m)
		ring := w.pipeFrom(from).frames
		avail := ring.avail()
		n := 0
		for n < avail && n < batchSize {
			// A frame is published whole.
			end := n
			for ring.at(end).Options&xsk.Continued != 0 {
				end++
			}
			var descs [wire.MaxSegments]xsk.Desc
			k := 0
			for ; n <= end; n, k = n+1, k+1 {
				descs[k] = ring.at(n)
			}
			w.frame(now, descs[:k])
		}
		ring.release(n)
		did = did || n != 0
		if n < avail {
			more |= 1 << from
		}
	}
	if more != 0 {
		w.inbox.Or(more)
	}
	return did
}

// takeBack collects memory that other workers were lent.
func (w *worker) takeBack() bool {
	if w.returns.Load() == 0 {
		return false
	}
	for m := w.returns.Swap(0); m != 0; m &= m - 1 {
		ring := w.pipeFrom(bits.TrailingZeros64(m)).memory
		n := ring.avail()
		for i := range n {
			w.free(ring.at(i))
		}
		ring.release(n)
	}
	if w.unfilled != 0 {
		w.refill()
	}
	return true
}
