package xsk

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath/xsk/internal/ring"
)

// RX is the receive half of a socket, for one goroutine at a time.
type RX struct {
	ring     *ring.Consumer[Desc]
	fill     *ring.Producer[uint64]
	fd       int
	busyPoll bool
	sock     *Socket
	mapping  []byte

	_        [64]byte // the halves count on cache lines of their own
	frames   atomic.Uint64
	buffers  atomic.Uint64
	bytes    atomic.Uint64
	filled   atomic.Uint64
	wakeups  atomic.Uint64
	wakeFail atomic.Uint64
	_        [64]byte
}

// Fill lends free frames to the kernel; see Port.
func (r *RX) Fill(addrs []uint64) int {
	n := r.fill.Put(addrs)
	if n != 0 {
		r.filled.Add(uint64(n))
	}
	return n
}

// Receive takes received buffers; see Port.
func (r *RX) Receive(dst []Desc) int {
	n := r.ring.Peek(dst)
	if n == 0 {
		return 0
	}
	whole := wholeFrames(dst[:n])
	if whole == 0 && n == len(dst) {
		whole = n // a frame longer than dst: pieces are better than none ever
	}
	if whole == 0 {
		return 0
	}
	r.ring.Release(whole)
	frames, bytes := tally(dst[:whole])
	r.frames.Add(frames)
	r.buffers.Add(uint64(whole))
	r.bytes.Add(bytes)
	return whole
}

// RxAvail returns how many buffers wait; see Port.
func (r *RX) RxAvail() int { return r.ring.Avail() }

// FillFree returns how many addresses Fill can take; see Port.
func (r *RX) FillFree() int { return r.fill.Free() }

// NeedFillWakeup reports whether the driver waits for WakeFill; see Port. With
// busy polling it always does: the driver only runs inside the call.
func (r *RX) NeedFillWakeup() bool { return r.busyPoll || r.fill.NeedWakeup() }

// WakeFill tells the driver that frames were filled; see Port.
func (r *RX) WakeFill() error {
	for {
		r.wakeups.Add(1)
		_, _, errno := unix.Syscall6(unix.SYS_RECVFROM, uintptr(r.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0, unix.EAGAIN, unix.EBUSY, unix.ENOBUFS:
			return nil
		case unix.EINTR:
			continue
		}
		r.wakeFail.Add(1)
		return r.sock.failure(opWake, errno)
	}
}

func (r *RX) broken() bool { return r.ring.Broken() || r.fill.Broken() }
