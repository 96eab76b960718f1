package stage

import (
	"bytes"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Msg is a whole message: a work request to be posted, or, by From, the packets
// in which the peer sends such a one.
type Msg struct {
	w      queue.SendWQE
	n      int // bytes
	remote int // offset at the responder
	local  int // offset in the program's memory
	sges   []queue.SGE
	lkey   uint32
	raw    bool   // RemoteAddr and RKey are final
	inline []byte // what it sends when it is INLINE
}

func msg(op ibv.WROpcode, n int) Msg {
	return Msg{n: n, w: queue.SendWQE{
		Opcode: op, Flags: ibv.SendSignaled, Imm: Imm, AH: AH, RemoteQPN: PeerQPN, RemoteQKey: QKey,
	}}
}

// Send is a SEND of n bytes.
func Send(n int) Msg { return msg(ibv.WRSend, n) }

// SendImm is a SEND with the immediate data Imm.
func SendImm(n int) Msg { return msg(ibv.WRSendWithImm, n) }

// SendInv is a SEND that invalidates InvKey.
func SendInv(n int) Msg {
	m := msg(ibv.WRSendWithInv, n)
	m.w.Imm = InvKey
	return m
}

// Write is an RDMA WRITE of n bytes to the start of the remote memory.
func Write(n int) Msg { return msg(ibv.WRRDMAWrite, n) }

// WriteImm is an RDMA WRITE with the immediate data Imm.
func WriteImm(n int) Msg { return msg(ibv.WRRDMAWriteWithImm, n) }

// Read is an RDMA READ of n bytes from the start of the remote memory.
func Read(n int) Msg { return msg(ibv.WRRDMARead, n) }

// FetchAdd adds to the first word of the remote memory.
func FetchAdd(add uint64) Msg {
	m := msg(ibv.WRAtomicFetchAdd, 8)
	m.w.CompareAdd = add
	return m
}

// CompareSwap replaces the first word of the remote memory by swap if it is cmp.
func CompareSwap(cmp, swap uint64) Msg {
	m := msg(ibv.WRAtomicCmpAndSwp, 8)
	m.w.CompareAdd, m.w.Swap = cmp, swap
	return m
}

// AtomicWrite writes 8 bytes to the start of the remote memory at once.
func AtomicWrite() Msg { return msg(ibv.WRAtomicWrite, 8) }

// Flush makes n bytes from the start of the remote memory visible to all.
func Flush(n int) Msg {
	m := msg(ibv.WRFlush, n)
	m.w.FlushType, m.w.FlushLevel = uint16(ibv.FlushGlobal), uint16(ibv.FlushRange)
	return m
}

// Bind binds a memory window: a work request without packets, and so without a
// PSN.
func Bind(b memory.Binding) Msg {
	m := msg(ibv.WRBindMW, 0)
	m.w.BindRKey, m.w.BindLKey, m.w.BindAddr, m.w.BindLength, m.w.BindAccess = b.Key, b.LKey, b.VA, b.Len, b.Access
	return m
}

// Remote moves the remote range to offset off.
func (m Msg) Remote(off int) Msg { m.remote = off; return m }

// Local moves the program's memory, from 0, to offset off.
func (m Msg) Local(off int) Msg { m.local = off; return m }

// At names any remote address and key.
func (m Msg) At(va uint64, rkey uint32) Msg {
	m.w.RemoteAddr, m.w.RKey, m.raw = va, rkey, true
	return m
}

// LKey names another key of the program's memory.
func (m Msg) LKey(k uint32) Msg { m.lkey = k; return m }

// SGEs replaces the scatter/gather entries.
func (m Msg) SGEs(e ...queue.SGE) Msg { m.sges = e; return m }

// Flags sets flags besides SIGNALED.
func (m Msg) Flags(f ibv.SendFlags) Msg { m.w.Flags |= f; return m }

// Unsignaled takes SIGNALED off.
func (m Msg) Unsignaled() Msg { m.w.Flags &^= ibv.SendSignaled; return m }

// To is the destination of a datagram.
func (m Msg) To(qpn, qkey, ah uint32) Msg {
	m.w.RemoteQPN, m.w.RemoteQKey, m.w.AH = qpn, qkey, ah
	return m
}

// Edit changes any field of the work request just before it is posted.
func (m Msg) Edit(change func(*queue.SendWQE)) Msg { change(&m.w); return m }

func (m Msg) is(f ibv.SendFlags) bool { return m.w.Flags&f != 0 }

// packets is the number of PSNs that m takes at the path MTU.
func (m Msg) packets() int {
	switch m.w.Opcode {
	case ibv.WRSend, ibv.WRSendWithImm, ibv.WRSendWithInv, ibv.WRRDMAWrite, ibv.WRRDMAWriteWithImm, ibv.WRRDMARead:
		return max(1, (m.n+MTU-1)/MTU)
	case ibv.WRBindMW, ibv.WRLocalInv, ibv.WRRegMR:
		return 0
	default:
		return 1
	}
}

// opcodes are the request packets of a message: first, middle, last, only.
var opcodes = map[ibv.WROpcode][4]wire.Opcode{
	ibv.WRSend:             {wire.SendFirst, wire.SendMiddle, wire.SendLast, wire.SendOnly},
	ibv.WRSendWithImm:      {wire.SendFirst, wire.SendMiddle, wire.SendLastImm, wire.SendOnlyImm},
	ibv.WRSendWithInv:      {wire.SendFirst, wire.SendMiddle, wire.SendLastInv, wire.SendOnlyInv},
	ibv.WRRDMAWrite:        {wire.WriteFirst, wire.WriteMiddle, wire.WriteLast, wire.WriteOnly},
	ibv.WRRDMAWriteWithImm: {wire.WriteFirst, wire.WriteMiddle, wire.WriteLastImm, wire.WriteOnlyImm},
	ibv.WRRDMARead:         {3: wire.ReadRequest},
	ibv.WRAtomicFetchAdd:   {3: wire.FetchAdd},
	ibv.WRAtomicCmpAndSwp:  {3: wire.CompareSwap},
	ibv.WRAtomicWrite:      {3: wire.AtomicWrite},
	ibv.WRFlush:            {3: wire.Flush},
}

// From are the request packets of m, the first with PSN k, as a reliable
// connection sends them: the last asks for an acknowledgement.
func (m Msg) From(k int) []Packet {
	ops := opcodes[m.w.Opcode]
	n := m.packets()
	if m.w.Opcode == ibv.WRRDMARead {
		n = 1
	}
	var all []Packet
	for i := range n {
		p := Packet{op: ops[1], psn: k + i, n: MTU, off: m.remote, total: m.n, msg: &m}
		switch {
		case n == 1:
			p.op, p.n, p.ackReq = ops[3], m.n, true
		case i == 0:
			p.op = ops[0]
		case i == n-1:
			p.op, p.n, p.ackReq = ops[2], m.n-i*MTU, true
		}
		if !p.info(wire.RC).Payload {
			p.n = 0
		}
		p.se = m.is(ibv.SendSolicited) && p.info(wire.RC).Completes
		all = append(all, p)
	}
	return all
}

// Packet is the first packet of From: the only one of a short message.
func (m Msg) Packet(k int) Packet { return m.From(k)[0] }

// posted is a work request that the program has posted.
type posted struct {
	Msg
	first int // its first PSN
}

// Post posts work requests with the ids 1, 2, 3...
func (s *Stage) Post(msgs ...Msg) {
	s.Helper()
	for _, m := range msgs {
		if s.sq.FreeNow() == 0 {
			s.Fatal("the send queue is full")
		}
		s.sends++
		w := m.w
		w.WRID, w.Length = s.sends, uint32(m.n)
		if !m.raw {
			w.RemoteAddr, w.RKey = PeerVA+uint64(m.remote), PeerKey
		}
		slot := s.sq.Slot(0)
		if m.is(ibv.SendInline) {
			m.inline = bytes.Clone(s.Local(m.local, m.n))
			copy(queue.SendInline(slot), m.inline)
		} else if m.sges == nil && m.n > 0 && m.w.Opcode != ibv.WRFlush {
			key := m.lkey
			if key == 0 {
				key = s.local.LKey()
			}
			m.sges = []queue.SGE{{Addr: s.local.Start() + uint64(m.local), Length: uint32(m.n), LKey: key}}
		}
		if w.NumSGE == 0 {
			w.NumSGE = uint16(len(m.sges))
		}
		for i, e := range m.sges {
			queue.PutSendSGE(slot, i, e)
		}
		queue.PutSend(slot, &w)
		s.sq.Publish(1)
		m.w = w
		s.posted = append(s.posted, posted{m, s.nextPSN()})
	}
}

// nextPSN is the PSN after those of all work requests so far.
func (s *Stage) nextPSN() int {
	if len(s.posted) == 0 {
		return 0
	}
	last := &s.posted[len(s.posted)-1]
	if s.cfg.typ == ibv.QPTypeUD || s.cfg.typ == ibv.QPTypeGSI {
		return last.first + 1
	}
	return last.first + last.packets()
}

// postedAt is the work request that PSN k belongs to, nil if there is none.
func (s *Stage) postedAt(k int) *posted {
	for i := range s.posted {
		if p := &s.posted[i]; k >= p.first && k < p.first+p.packets() {
			return p
		}
	}
	return nil
}

const (
	firstRecv  = 101
	bufferSize = 2048
)

// Recv posts a receive of each size, at most 2048 bytes, with the ids 101,
// 102... Each has a buffer of its own.
func (s *Stage) Recv(sizes ...int) {
	s.Helper()
	for _, n := range sizes {
		s.RecvSGEs(s.buffer(n))
	}
}

// buffer is the memory of the next receive.
func (s *Stage) buffer(n int) queue.SGE {
	off := int(s.recvs) * bufferSize
	return queue.SGE{Addr: s.bufs.Start() + uint64(off), Length: uint32(n), LKey: s.bufs.LKey()}
}

// RecvSGEs posts a receive of these entries.
func (s *Stage) RecvSGEs(sges ...queue.SGE) {
	s.Helper()
	w := queue.RecvWQE{NumSGE: uint16(len(sges))}
	for _, e := range sges {
		w.Length += e.Length
	}
	s.RecvRaw(w, sges...)
}

// RecvRaw posts a receive with the header w, right or wrong, but for the id.
func (s *Stage) RecvRaw(w queue.RecvWQE, sges ...queue.SGE) {
	s.Helper()
	if s.rq.FreeNow() == 0 {
		s.Fatal("the receive queue is full")
	}
	w.WRID = firstRecv + s.recvs
	s.recvs++
	slot := s.rq.Slot(0)
	for i, e := range sges {
		queue.PutRecvSGE(slot, i, e)
	}
	queue.PutRecv(slot, &w)
	s.rq.Publish(1)
}
