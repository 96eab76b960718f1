package datapath

import (
	"encoding/binary"

	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// flushForm chooses the ICRC of a queue pair's FLUSH requests: Linux's rdma_rxe
// takes and sends no other than its own (see wire.ICRCFlushRXE). It is known by
// clear MigReq bits, which host channel adapters and we set. A FLUSH that has to
// be sent again changes to the other form, in case that was the reason. The zero
// value is right for a peer of which nothing is known.
type flushForm struct {
	rxe  bool // the form to use
	peer peerKind
	sent bool
	last psn.PSN // of the newest FLUSH, if sent
	used bool    // form that it had
}

type peerKind uint8

const (
	peerUnknown peerKind = iota
	peerStandard
	peerRXE
)

// hear takes notice of a packet from the peer.
func (f *flushForm) hear(p *wire.Packet) {
	k := peerStandard
	if !p.Hdr().MigReq() || p.ICRC == wire.ICRCRXE {
		k = peerRXE
	}
	if k != f.peer {
		f.peer, f.rxe = k, k == peerRXE
	}
}

// next reports whether the FLUSH with PSN p, which is about to leave, needs
// rdma_rxe's form.
func (f *flushForm) next(p psn.PSN) bool {
	// What the peer has said since may have changed the form already.
	if f.sent && p.LessEq(f.last) && f.used == f.rxe {
		f.rxe = !f.rxe
	}
	f.sent, f.last, f.used = true, p, f.rxe
	return f.rxe
}

// reICRC gives a finished FLUSH frame, whose BTH is at bth, the form that its
// peer takes.
func (f *flushForm) reICRC(frame []byte, bth int) {
	if !f.next(wire.BTHAt(frame[bth:]).PSN()) {
		return
	}
	at := frame[len(frame)-wire.ICRCLen:]
	binary.LittleEndian.PutUint32(at, wire.ICRCFlushRXE(binary.LittleEndian.Uint32(at), frame[bth:]))
}
