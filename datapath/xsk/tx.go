package xsk

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath/xsk/internal/ring"
)

// TX is the transmit half of a socket, for one goroutine at a time.
type TX struct {
	ring      *ring.Producer[Desc]
	comp      *ring.Consumer[uint64]
	send      func(fd int) unix.Errno
	fd        int
	alwaysAsk bool // without wake-up flags, and with busy polling
	sock      *Socket
	errBroken error
	mapping   []byte

	_         [64]byte // the halves count on cache lines of their own
	frames    atomic.Uint64
	buffers   atomic.Uint64
	bytes     atomic.Uint64
	completed atomic.Uint64
	kicks     atomic.Uint64
	again     atomic.Uint64
	busy      atomic.Uint64
	noBufs    atomic.Uint64
	intr      atomic.Uint64
	later     atomic.Uint64
	kickFail  atomic.Uint64
	_         [64]byte
}

// Submit queues descriptors; see Port.
func (t *TX) Submit(descs []Desc) int {
	n := wholeFrames(descs[:t.ring.Room(len(descs))])
	if n = t.ring.Put(descs[:n]); n == 0 {
		return 0
	}
	frames, bytes := tally(descs[:n])
	t.frames.Add(frames)
	t.buffers.Add(uint64(n))
	t.bytes.Add(bytes)
	return n
}

// Transmit is Submit followed by Kick.
func (t *TX) Transmit(descs []Desc) (int, error) {
	n := t.Submit(descs)
	return n, t.Kick()
}

// Complete takes addresses of transmitted frames; see Port.
func (t *TX) Complete(dst []uint64) int {
	n := t.comp.Take(dst)
	if n != 0 {
		t.completed.Add(uint64(n))
	}
	return n
}

// TxFree returns how many descriptors Submit can take; see Port.
func (t *TX) TxFree() int { return t.ring.Free() }

// TxPending returns how many descriptors wait to be transmitted; see Port.
func (t *TX) TxPending() int { return t.ring.Pending() }

// CompAvail returns how many addresses Complete has; see Port.
func (t *TX) CompAvail() int { return t.comp.Avail() }

func (t *TX) broken() bool { return t.ring.Broken() || t.comp.Broken() }
