package xsk

import (
	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath/xsk/internal/ring"
)

// mmapOffsetsSize is the size of struct xdp_mmap_offsets with flags, which
// Linux 5.4 added.
const mmapOffsetsSize = 4 * 32

// queueKey names a queue of an interface across network namespaces.
type queueKey struct {
	netns          uint64
	ifindex, queue int
}

// queueRings are the fill and completion ring of one queue. Sockets that share
// a UMEM and a queue share them.
type queueRings struct {
	fill     *ring.Producer[uint64]
	comp     *ring.Consumer[uint64]
	mappings [2][]byte
	users    int
}

// setUpRings creates and maps the rings. The UMEM's lock is held.
func (s *Socket) setUpRings() error {
	s.key = queueKey{netns: netnsOf(s.fd), ifindex: s.ifindex, queue: s.queue}
	rings := s.umem.queues[s.key]
	sizes := []struct{ opt, size int }{{unix.XDP_RX_RING, s.opts.RxSize}, {unix.XDP_TX_RING, s.opts.TxSize}}
	if rings == nil {
		sizes = append(sizes, []struct{ opt, size int }{
			{unix.XDP_UMEM_FILL_RING, s.opts.FillSize}, {unix.XDP_UMEM_COMPLETION_RING, s.opts.CompSize},
		}...)
	}
	for _, r := range sizes {
		n := uint32(r.size)
		if err := setsockopt(s.fd, r.opt, &n); err != nil {
			return s.explain(opRings, err)
		}
	}
	var off unix.XDPMmapOffsets
	n, err := getsockopt(s.fd, unix.XDP_MMAP_OFFSETS, &off)
	if err != nil {
		return s.explain(opMap, err)
	}
	if n < mmapOffsetsSize {
		return &Error{Op: opMap, Ifindex: s.ifindex, Queue: s.queue, Kind: ErrNotSupported, Hint: "rings without wake-up flags; Linux 5.4 or newer is needed"}
	}
	if s.rx.mapping, err = s.mapRing(unix.XDP_PGOFF_RX_RING, ring.Length[Desc](layout(off.Rx), s.opts.RxSize)); err != nil {
		return err
	}
	if s.rx.ring, err = ring.MapConsumer[Desc](s.rx.mapping, layout(off.Rx), s.opts.RxSize); err != nil {
		return err
	}
	if s.tx.mapping, err = s.mapRing(unix.XDP_PGOFF_TX_RING, ring.Length[Desc](layout(off.Tx), s.opts.TxSize)); err != nil {
		return err
	}
	if s.tx.ring, err = ring.MapProducer[Desc](s.tx.mapping, layout(off.Tx), s.opts.TxSize); err != nil {
		return err
	}
	if rings == nil {
		if rings, err = s.mapQueueRings(off); err != nil {
			return err
		}
		s.umem.queues[s.key] = rings
	}
	rings.users++
	s.rings = rings
	return nil
}

func (s *Socket) mapQueueRings(off unix.XDPMmapOffsets) (_ *queueRings, err error) {
	q := &queueRings{}
	defer func() {
		if err != nil {
			_ = q.unmap()
		}
	}()
	if q.mappings[0], err = s.mapRing(unix.XDP_UMEM_PGOFF_FILL_RING, ring.Length[uint64](layout(off.Fr), s.opts.FillSize)); err != nil {
		return nil, err
	}
	if q.fill, err = ring.MapProducer[uint64](q.mappings[0], layout(off.Fr), s.opts.FillSize); err != nil {
		return nil, err
	}
	if q.mappings[1], err = s.mapRing(unix.XDP_UMEM_PGOFF_COMPLETION_RING, ring.Length[uint64](layout(off.Cr), s.opts.CompSize)); err != nil {
		return nil, err
	}
	q.comp, err = ring.MapConsumer[uint64](q.mappings[1], layout(off.Cr), s.opts.CompSize)
	return q, err
}

func layout(o unix.XDPRingOffset) ring.Layout {
	return ring.Layout{Producer: o.Producer, Consumer: o.Consumer, Entries: o.Desc, Flags: o.Flags}
}

func (s *Socket) mapRing(offset int64, length int) ([]byte, error) {
	mem, err := unix.Mmap(s.fd, offset, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, s.explain(opMap, err)
	}
	return mem, nil
}

// unmapRings gives up the socket's mappings, and those of the queue with its
// last user. The UMEM's lock is held.
func (s *Socket) unmapRings() error {
	err := unmap(&s.rx.mapping)
	if terr := unmap(&s.tx.mapping); err == nil {
		err = terr
	}
	q := s.rings
	if q == nil {
		return err
	}
	s.rings = nil
	// The halves keep rings of their own, which are empty.
	s.rx.fill, s.tx.comp = ring.EmptyProducer[uint64](), ring.EmptyConsumer[uint64]()
	if q.users--; q.users > 0 {
		return err
	}
	delete(s.umem.queues, s.key)
	if qerr := q.unmap(); err == nil {
		err = qerr
	}
	return err
}

func (q *queueRings) unmap() error {
	err := unmap(&q.mappings[0])
	if cerr := unmap(&q.mappings[1]); err == nil {
		err = cerr
	}
	return err
}

func unmap(mem *[]byte) error {
	if *mem == nil {
		return nil
	}
	err := unix.Munmap(*mem)
	*mem = nil
	return err
}

// netnsOf tells the network namespace of a socket. Kernels before 5.14 do not
// say; then only the interface index counts.
func netnsOf(fd int) uint64 {
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0
	}
	return cookie
}
