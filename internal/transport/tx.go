package transport

import (
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// MaxHeader is the largest BTH with extension headers in bytes.
const MaxHeader = 64

// Intent is one packet to send: its encoded headers from the BTH on, and where
// its payload is. Pad and ICRC are the driver's.
type Intent struct {
	QP     *QP
	Info   *wire.OpInfo
	PSN    psn.PSN
	AH     uint32          // UD: address handle of the work request, whose path the packet takes; else 0
	HdrLen int             // bytes of Hdr in use
	Len    int             // payload bytes
	Hdr    [MaxHeader]byte // BTH (PadCnt set) and extension headers

	first, n int // pieces
}

// Piece is a run of payload bytes: Data, or Len bytes at VA of an indirect
// region when Region is set.
type Piece struct {
	Data   []byte
	Region *memory.Region
	VA     uint64
	Len    int
}

// Batch collects the packets of one round of Poll. Its owner sets the capacity
// once and reuses it; a queue pair appends while Room says so.
type Batch struct {
	Intents []Intent
	Pieces  []Piece
	limit   int
}

// NewBatch makes a batch for at most n packets.
func NewBatch(n int) *Batch {
	return &Batch{Intents: make([]Intent, 0, n), Pieces: make([]Piece, 0, 4*n+64), limit: n}
}

// Reset empties b and sets how many packets it may take now, at most its
// capacity.
func (b *Batch) Reset(limit int) {
	b.Intents = b.Intents[:0]
	b.Pieces = b.Pieces[:0]
	b.limit = min(limit, cap(b.Intents))
}

// SetLimit lets b hold at most limit packets, counting those it has.
func (b *Batch) SetLimit(limit int) { b.limit = min(limit, cap(b.Intents)) }

// Room is how many more packets b takes.
func (b *Batch) Room() int { return b.limit - len(b.Intents) }

// PiecesOf are the payload pieces of in, in order.
func (b *Batch) PiecesOf(in *Intent) []Piece { return b.Pieces[in.first : in.first+in.n] }

// next appends an intent for q with an encoded BTH; the caller has checked Room.
// Extension headers and payload are added to the result.
func (b *Batch) next(q *QP, info *wire.OpInfo, p psn.PSN) *Intent {
	b.Intents = b.Intents[:len(b.Intents)+1]
	in := &b.Intents[len(b.Intents)-1]
	in.QP, in.Info, in.PSN = q, info, p
	in.AH, in.HdrLen, in.Len = 0, info.HeaderLen, 0
	in.first, in.n = len(b.Pieces), 0
	h := wire.BTHAt(in.Hdr[:])
	*h = wire.BTH{}
	h.SetOpcode(info.Opcode)
	h.SetMigReq(true)
	h.SetPKey(wire.DefaultPKey)
	h.SetDestQP(q.destQPN)
	h.SetPSN(p)
	return in
}

// full reports whether b may lack room for one more packet of up to pieces
// payload pieces. An empty batch always has it.
func (b *Batch) full(pieces int) bool {
	return b.Room() <= 0 || len(b.Intents) > 0 && cap(b.Pieces)-len(b.Pieces) < pieces
}

// drop takes the last intent back.
func (b *Batch) drop() {
	last := len(b.Intents) - 1
	b.Pieces = b.Pieces[:b.Intents[last].first]
	b.Intents = b.Intents[:last]
}

// data appends a run of directly addressed payload to the last intent.
func (b *Batch) data(in *Intent, d []byte) {
	if len(d) == 0 {
		return
	}
	b.Pieces = append(b.Pieces, Piece{Data: d, Len: len(d)})
	in.n++
	in.Len += len(d)
}

// region appends n bytes at va of r to the last intent.
func (b *Batch) region(in *Intent, r *memory.Region, va uint64, n int) {
	if n == 0 {
		return
	}
	if d := r.Slice(va, n); d != nil {
		b.data(in, d)
		return
	}
	b.Pieces = append(b.Pieces, Piece{Region: r, VA: va, Len: n})
	in.n++
	in.Len += n
}

// finish sets the pad count once the payload of in is complete.
func (in *Intent) finish() { wire.BTHAt(in.Hdr[:]).SetPadCnt(uint8(wire.PadLen(in.Len))) }

// Gather copies the payload of in into dst, which holds at least in.Len bytes.
// It returns false when memory of an indirect region has gone away.
func (b *Batch) Gather(in *Intent, dst []byte) bool {
	for i := range b.PiecesOf(in) {
		p := &b.Pieces[in.first+i]
		if p.Region == nil {
			dst = dst[copy(dst, p.Data):]
			continue
		}
		if !p.Region.Read(p.VA, dst[:p.Len]) {
			return false
		}
		dst = dst[p.Len:]
	}
	return true
}
