package datapath

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// qpTable finds queue pairs by number without a lock: two levels, so that a
// device with few queue pairs does not touch megabytes.
type qpTable struct {
	pages [maxQPN >> pageBits]atomic.Pointer[qpPage]
}

type qpPage [1 << pageBits]atomic.Pointer[qp]

const (
	pageBits = 10
	pageMask = 1<<pageBits - 1
)

// get is the queue pair of a number, nil if there is none.
func (t *qpTable) get(qpn uint32) *qp {
	if qpn >= maxQPN {
		return nil
	}
	page := t.pages[qpn>>pageBits].Load()
	if page == nil {
		return nil
	}
	return page[qpn&pageMask].Load()
}

// put makes q the queue pair of qpn, nil none. The device's lock is held.
func (t *qpTable) put(qpn uint32, q *qp) {
	slot := &t.pages[qpn>>pageBits]
	page := slot.Load()
	if page == nil {
		page = new(qpPage)
		slot.Store(page)
	}
	page[qpn&pageMask].Store(q)
}

// Numbers of queue pairs: 16 to 2^20-1 as rxe's, given out one after the other
// from a random one on, so that a number comes again only after all others and
// the queue pairs of a device share few pages of its table.
const (
	minQPN = 16
	maxQPN = 1 << 20
)

// qpnSource gives out numbers.
type qpnSource struct{ at uint32 }

// next is the next number that t does not have; false when it has all.
func (s *qpnSource) next(t *qpTable) (uint32, bool) {
	for range maxQPN - minQPN {
		s.at = (s.at + 1) % (maxQPN - minQPN)
		if qpn := s.at + minQPN; t.get(qpn) == nil {
			return qpn, true
		}
	}
	return 0, false
}

// number is a free number for a queue pair of type t: the well-known one of the
// general services interface, of which there is one. The device's lock is held.
func (d *Device) number(t ibv.QPType) (uint32, error) {
	if t == ibv.QPTypeGSI {
		if d.table.get(ibv.GSIQPN) != nil {
			return 0, fmt.Errorf("%w: the device has one queue pair %d, which somebody uses: a connection manager of its own or another program's", ErrBusy, ibv.GSIQPN)
		}
		return ibv.GSIQPN, nil
	}
	num, ok := d.numbers.next(&d.table)
	if !ok {
		return 0, fmt.Errorf("%w: all %d queue pair numbers are in use", ErrLimit, maxQPN-minQPN)
	}
	return num, nil
}

// workerOf is the worker of the queue pair that a frame is for, nil if that
// cannot be told at a glance: then the worker that has the frame looks closer.
func (d *Device) workerOf(frame []byte) *worker {
	qpn, ok := peekQPN(frame)
	if !ok {
		return nil
	}
	if q := d.table.get(qpn); q != nil {
		return q.w
	}
	return nil
}

// peekQPN reads the destination queue pair of a RoCE frame. It checks no more
// than it must to find the BTH.
func peekQPN(frame []byte) (uint32, bool) {
	const destQP = 5 // offset in the BTH, three bytes
	if len(frame) < wire.EthernetLen {
		return 0, false
	}
	l3, typ := wire.EthernetLen, binary.BigEndian.Uint16(frame[12:14])
	for range 2 {
		if typ != wire.EtherTypeVLAN && typ != wire.EtherTypeQinQ || len(frame) < l3+wire.VLANLen {
			break
		}
		typ = binary.BigEndian.Uint16(frame[l3+2 : l3+4])
		l3 += wire.VLANLen
	}
	switch typ {
	case wire.EtherTypeIPv4:
		l3 += wire.IPv4Len
	case wire.EtherTypeIPv6:
		l3 += wire.IPv6Len
	default:
		return 0, false
	}
	bth := l3 + wire.UDPLen
	if len(frame) < bth+wire.BTHLen {
		return 0, false
	}
	b := frame[bth+destQP : bth+destQP+3]
	return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]), true
}
