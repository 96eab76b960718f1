package datapath

import "github.com/roce-xdp/roce-xdp/internal/wire"

// maxFrame is the largest frame that a queue pair sends: all headers of a packet
// with path MTU 4096.
const maxFrame = wire.MaxPathLen + 64 + 4096 + wire.ICRCLen

// share is how the packet memory is divided: each worker has perWorker bytes, of
// which the first rxBytes are frames to receive into and the rest are slots to
// send from. A slot is several adjacent frames, so that a packet is contiguous
// in memory although each of its descriptors stays inside a frame.
type share struct {
	frameSize  int
	rxFrames   int
	slotFrames int // frames of a slot
	slots      int
	rxBytes    uint64
	perWorker  uint64
}

func newShare(o *Options) share {
	s := share{frameSize: o.FrameSize, rxFrames: o.Frames}
	s.slotFrames = (maxFrame + o.FrameSize - 1) / o.FrameSize
	s.slots = o.RingSize / s.slotFrames
	s.rxBytes = uint64(s.rxFrames) * uint64(s.frameSize)
	s.perWorker = s.rxBytes + uint64(s.slots*s.slotFrames)*uint64(s.frameSize)
	return s
}

// frames is the number of frames of a worker.
func (s *share) frames() int { return int(s.perWorker) / s.frameSize }

// home is the worker of the frame to receive into that has addr, as a rule worker id;
// false if it is in none. Packets between queue pairs of this device are in slots to send
// from, of which nobody may keep any: with all of them kept no one could send.
func (s *share) home(id int, addr uint64) (worker int, ok bool) {
	switch off := addr - uint64(id)*s.perWorker; {
	case off < s.rxBytes:
		return id, true
	case off < s.perWorker:
		return 0, false
	}
	return int(addr / s.perWorker), addr%s.perWorker < s.rxBytes
}

// txPool has the transmit slots of a worker. It is used by who drives it.
type txPool struct {
	base     uint64 // address of the first slot
	slotSize uint64
	free     []uint32 // slots, last returned first
	left     []uint8  // by slot: descriptors not completed yet
}

func newTxPool(s *share, worker int) txPool {
	p := txPool{
		base:     uint64(worker)*s.perWorker + s.rxBytes,
		slotSize: uint64(s.slotFrames * s.frameSize),
		free:     make([]uint32, s.slots),
		left:     make([]uint8, s.slots),
	}
	for i := range p.free {
		p.free[i] = uint32(s.slots - 1 - i)
	}
	return p
}

// get takes a free slot that n descriptors will name and returns its address;
// the caller has seen that there is one.
func (p *txPool) get() uint64 {
	last := len(p.free) - 1
	i := p.free[last]
	p.free = p.free[:last]
	return p.base + uint64(i)*p.slotSize
}

// use says how many completions free the slot at addr.
func (p *txPool) use(addr uint64, n int) { p.left[(addr-p.base)/p.slotSize] = uint8(n) }

// cancel gives back a slot that was not used.
func (p *txPool) cancel(addr uint64) {
	p.free = append(p.free, uint32((addr-p.base)/p.slotSize))
}

// done counts a completion of the slot that addr is in. It reports false for an
// address that was not sent.
func (p *txPool) done(addr uint64) bool {
	i := (addr - p.base) / p.slotSize
	if i >= uint64(len(p.left)) || p.left[i] == 0 {
		return false
	}
	if p.left[i]--; p.left[i] == 0 {
		p.free = append(p.free, uint32(i))
	}
	return true
}

// busy is the number of slots in use.
func (p *txPool) busy() int { return len(p.left) - len(p.free) }
