package datapath

import (
	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// minKept is how many frames a client may have kept whatever others have, while half
// of the frames to receive into are left.
const minKept = 16

// held are the buffers of a frame that a queue pair keeps.
type held struct {
	addrs  [wire.MaxSegments]uint64
	n      int
	keeper *lane // which it counts for
}

// keepTable remembers the frames that queue pairs keep. The reference that goes
// with a packet is an index of it.
//
// Frames are kept until a gap closes, which is up to a client's peers: nobody can take
// them back, so a share that depended on who else wants one would come too late. A
// client may have at most twice what is left of half as much again as the limit. For
// one alone that is the limit; two that want all they can get come to 0.6 of it each,
// three to 0.43; who comes when one has everything finds a third of it.
type keepTable struct {
	entries []held
	free    []uint32
	limit   int // frames that a client alone may have kept
}

func newKeepTable(n int) keepTable {
	t := keepTable{entries: make([]held, n), free: make([]uint32, n), limit: n}
	for i := range t.free {
		t.free[i] = uint32(n - 1 - i)
	}
	return t
}

// takes reports whether one more frame can be kept for l.
func (t *keepTable) takes(l *lane) bool {
	if len(t.free) == 0 {
		return false
	}
	n := t.kept()
	return l.kept < 2*(t.limit+t.limit/2-n) || l.kept < min(minKept, t.limit) && n < 2*t.limit
}

// next is the reference that the next kept frame gets, if there is one.
func (t *keepTable) next() uint64 { return uint64(t.free[len(t.free)-1]) }

// hold keeps the frame of descs for l under the reference that next told.
func (t *keepTable) hold(l *lane, descs []xsk.Desc) {
	last := len(t.free) - 1
	e := &t.entries[t.free[last]]
	t.free = t.free[:last]
	l.kept++
	e.n, e.keeper = len(descs), l
	for i := range descs {
		e.addrs[i] = descs[i].Addr
	}
}

// take forgets the frame of ref and returns its buffers, none if ref is unknown.
// They are good until the next hold.
func (t *keepTable) take(ref uint64) []uint64 {
	if ref >= uint64(len(t.entries)) || t.entries[ref].n == 0 {
		return nil
	}
	e := &t.entries[ref]
	n := e.n
	e.keeper.kept--
	e.n, e.keeper = 0, nil
	t.free = append(t.free, uint32(ref))
	return e.addrs[:n]
}

// kept is the number of frames held.
func (t *keepTable) kept() int { return len(t.entries) - len(t.free) }
