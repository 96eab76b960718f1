package datapath

import (
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// minKept is how many buffers a client may have kept whatever others have, while half
// of the frames to receive into are left: 16 packets of path MTU 4096.
const minKept = 32

// keptPart is which part of a worker's frames a client may have kept that is alone.
const keptPart = 4

// held are the buffers of a frame that a queue pair keeps.
type held struct {
	addrs  [wire.MaxSegments]uint64
	n      int
	keeper *lane // which they count for
	home   int   // the worker that received them
}

// homeKept is how many buffers of one worker the queue pairs of all workers keep. Who
// keeps one, or lets go of it, counts: not each packet.
type homeKept struct {
	n atomic.Int64
	_ [cacheLine - 8]byte
}

// keepTable remembers the frames that queue pairs of a worker keep. The reference that
// goes with a packet is an index of it.
//
// Frames are kept until a gap closes, which is up to a client's peers: nobody can take
// them back, so a share that depended on who else wants one would come too late. A
// client may have at most twice what is left of half as much again as the limit. For
// one alone that is the limit; two that want all they can get come to 0.6 of it each,
// three to 0.43; who comes when one has everything finds a third of it.
//
// That holds twice: of what the worker keeps, and of what all workers keep of the
// frames of one, their home. For all that a socket receives may be for queue pairs of
// other workers, and with the part that each of these may keep nothing would be left to
// receive into. As it is, half of the frames are never kept, and that is a ring at
// least. Workers that look at the same moment exceed it by a frame each.
//
// What counts is buffers: a frame has as many as its sender likes, up to the MTU of the
// link, for nobody looks into it before its turn comes.
type keepTable struct {
	entries []held
	free    []uint32
	of      []homeKept // by worker; the device's
	buffers int        // held
	limit   int        // buffers that a client alone may have kept
}

// newKeepTable makes a table for a worker with n frames, as the others have them whose
// counts are of.
func newKeepTable(n int, of []homeKept) keepTable {
	t := keepTable{entries: make([]held, n), free: make([]uint32, n), of: of, limit: n / keptPart}
	for i := range t.free {
		t.free[i] = uint32(n - 1 - i)
	}
	return t
}

// takes reports whether one more frame, n buffers of worker home, can be kept for l.
func (t *keepTable) takes(l *lane, home, n int) bool {
	return len(t.free) != 0 && t.leaves(l.kept, t.buffers, n) &&
		t.leaves(int(l.keptOf[home].Load()), int(t.of[home].n.Load()), n)
}

// leaves reports whether who has own of the buffers that are kept may have n more.
func (t *keepTable) leaves(own, kept, n int) bool {
	return own+n <= 2*(t.limit+t.limit/2-kept) || own+n <= min(minKept, (t.limit+1)/2) && kept+n <= 2*t.limit
}

// next is the reference that the next kept frame gets, if there is one.
func (t *keepTable) next() uint64 { return uint64(t.free[len(t.free)-1]) }

// hold keeps the frame of descs, which are worker home's, for l under the reference that
// next told.
func (t *keepTable) hold(l *lane, home int, descs []xsk.Desc) {
	last := len(t.free) - 1
	e := &t.entries[t.free[last]]
	t.free = t.free[:last]
	e.n, e.keeper, e.home = len(descs), l, home
	t.count(e, e.n)
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
	t.count(e, -n)
	e.n, e.keeper = 0, nil
	t.free = append(t.free, uint32(ref))
	return e.addrs[:n]
}

// count adds n buffers to all that those of e count for.
func (t *keepTable) count(e *held, n int) {
	t.buffers += n
	t.of[e.home].n.Add(int64(n))
	e.keeper.kept += n
	e.keeper.keptOf[e.home].Add(int64(n))
}

// kept is the number of frames held.
func (t *keepTable) kept() int { return len(t.entries) - len(t.free) }
