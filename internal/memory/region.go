package memory

import (
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// PD numbers a protection domain. A region is usable only by queue pairs of its
// own domain.
type PD uint32

type kind uint8

const (
	direct kind = iota
	revocable
	indirect
)

// Region is a registered memory region. All methods are safe for concurrent
// use; what happens to the bytes then is between the users of the memory.
type Region struct {
	start  uint64 // first virtual address
	length uint64 // bytes, at least 1; start+length does not pass 2^64
	key    uint32
	pd     PD
	access ibv.Access // with rightLocal if work requests may name the key
	qpn    uint32     // of a window of type 2: the queue pair that bound it; else 0
	kind   kind
	gone   atomic.Bool // a fault has revoked the region

	lasting bool // a fault fails the access, and the region stays
	foreign bool // with data: another process can take the memory away

	data  []byte // direct and revocable
	ind   Indirect
	shift uint64 // indirect: what to add to a virtual address for ind
	table *Table

	base  *Region // of a bound alias: the region whose bytes it has
	bound int     // aliases that have bytes of this one; guarded by table.mu
}

// rightLocal is the right to be named by scatter/gather entries. Regions have
// it; memory windows, whose keys are for peers only, do not.
const rightLocal ibv.Access = 1 << 31

// LKey is the key that local scatter/gather entries name.
func (r *Region) LKey() uint32 { return r.key }

// RKey is the key that peers name; it is the same as LKey.
func (r *Region) RKey() uint32 { return r.key }

// PD is the region's protection domain.
func (r *Region) PD() PD { return r.pd }

// Start is the first virtual address.
func (r *Region) Start() uint64 { return r.start }

// Len is the size in bytes, at least 1.
func (r *Region) Len() uint64 { return r.length }

// Access are the rights that the region was registered with.
func (r *Region) Access() ibv.Access { return r.access &^ rightLocal }

// Valid is false once the memory behind the region has gone away.
func (r *Region) Valid() bool { return !r.gone.Load() }

// Backing is the n bytes at va where they are mapped here, or nil when they are not
// all inside the region or it is indirect. Those of a revocable region may fault: it
// is for system calls.
func (r *Region) Backing(va uint64, n int) []byte {
	if r.kind == indirect || !r.holds(va, n) {
		return nil
	}
	return r.bytes(va, n)
}

// Through is what reaches the memory of an indirect region, nil of others.
func (r *Region) Through() Indirect { return r.ind }

// Slice is the n bytes at va, or nil when they are not all inside the region or
// the region is not direct: Read and Write reach the others. Its capacity ends
// with its length.
func (r *Region) Slice(va uint64, n int) []byte {
	if r.kind != direct || !r.holds(va, n) {
		return nil
	}
	off := va - r.start
	return r.data[off : off+uint64(n) : off+uint64(n)]
}

// covers reports whether the n bytes at va lie inside the region. The
// subtractions cannot wrap into range: an address below start becomes a
// distance of at least 2^64-start, which is no less than length.
func (r *Region) covers(va, n uint64) bool {
	off := va - r.start
	return off <= r.length && n <= r.length-off
}

func (r *Region) holds(va uint64, n int) bool { return n >= 0 && r.covers(va, uint64(n)) }

// bytes are the n bytes at va of a region with data; the range was checked.
func (r *Region) bytes(va uint64, n int) []byte {
	off := va - r.start
	return r.data[off : off+uint64(n)]
}

// adapt makes the kind of the region that which its memory and its rights ask for.
func (r *Region) adapt() {
	if r.implicit() {
		r.access |= ibv.AccessOnDemand
	}
	r.lasting = r.access&ibv.AccessOnDemand != 0
	switch {
	case r.kind == indirect:
	case r.foreign || r.lasting:
		r.kind = revocable
	default:
		r.kind = direct
	}
}

// implicit reports whether the region is all memory of a process.
func (r *Region) implicit() bool {
	return r.kind == indirect && r.start == 0 && r.length == ImplicitLen
}

// fault takes notice of an access that has failed for its memory.
func (r *Region) fault() {
	if !r.lasting {
		r.revoke()
	}
}

// revoke makes the region, and what it is a part of, fail every later access: by
// its key at once, and for those who hold the pointer by the flag. Its slot stays
// taken until it is deregistered.
func (r *Region) revoke() {
	for ; r != nil; r = r.base {
		r.gone.Store(true)
		r.table.unpublish(r)
	}
}
