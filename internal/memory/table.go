package memory

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// MaxRegions is the largest number of regions and aliases of a table: an index
// has 24 bits of a key, and index 0 is not used.
const MaxRegions = 1<<24 - 1

// Errors of registration.
var (
	// ErrFull says that the table has no free slot.
	ErrFull = errors.New("memory: too many memory regions")
	// ErrAccess says that the access rights do not go together or are unknown.
	ErrAccess = errors.New("memory: invalid access rights")
	// ErrRange says that the address range cannot be a region.
	ErrRange = errors.New("memory: invalid address range")
	// ErrNotRegistered says that a region or an alias is not in the table.
	ErrNotRegistered = errors.New("memory: region is not registered")
	// ErrWindowType says that a memory window is of no known type.
	ErrWindowType = errors.New("memory: unknown type of memory window")
	// ErrBound says that memory windows or fast-registered regions have bytes of
	// the region.
	ErrBound = errors.New("memory: region is bound to")
)

// Table holds the regions and aliases of a device. Access and Check, also those
// of peers, are lock-free and may run beside everything else.
type Table struct {
	slots

	mu   sync.Mutex
	rnd  func() uint32
	free []uint32 // given-back indices, reused in the order of their return
	next uint32   // first index that was never used
	live int

	aliases map[uint32]*Alias // by index
	byQP    map[uint32]*Alias // windows of type 2 that a queue pair has bound, a list
}

// NewTable makes a table for at most limit regions, 1 to MaxRegions; values
// outside are brought inside. rnd supplies the random part of keys, under the
// table's lock.
func NewTable(limit int, rnd func() uint32) *Table {
	limit = min(max(limit, 1), MaxRegions)
	return &Table{
		slots: newSlots(limit),
		rnd:   rnd,
		next:  1,

		aliases: map[uint32]*Alias{},
		byQP:    map[uint32]*Alias{},
	}
}

// Register makes data a direct region that starts at virtual address va. The
// memory must stay where it is, and mapped, until the region is deregistered
// and no worker uses it any more. Errors: ErrAccess, ErrRange, ErrFull.
//
// A region of no bytes is refused, as Linux does: requests of no bytes need no
// region.
func (t *Table) Register(pd PD, va uint64, data []byte, access ibv.Access) (*Region, error) {
	return t.add(&Region{kind: direct, pd: pd, start: va, length: uint64(len(data)), data: data, access: access})
}

// RegisterRevocable is Register for memory that may go away while it is
// registered. Accesses are slower by the price of Guard, and Slice is nil. With
// ON_DEMAND among the rights a fault fails the access that meets it, and no other.
func (t *Table) RegisterRevocable(pd PD, va uint64, data []byte, access ibv.Access) (*Region, error) {
	return t.add(&Region{foreign: true, pd: pd, start: va, length: uint64(len(data)), data: data, access: access})
}

// RegisterIndirect makes the length bytes at va, which ind reaches, a region.
// REMOTE_ATOMIC is refused with ErrAccess: ind has no atomics. With ON_DEMAND an
// error fails the access that meets it, and no other.
func (t *Table) RegisterIndirect(pd PD, va, length uint64, ind Indirect, access ibv.Access) (*Region, error) {
	return t.add(&Region{kind: indirect, pd: pd, start: va, length: length, ind: ind, access: access})
}

func (t *Table) add(r *Region) (*Region, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key, err := t.take()
	if err != nil {
		return nil, err
	}
	r.table = t
	r.key = key
	r.adapt()
	r.access |= rightLocal
	*t.owner(key >> 8) = r
	t.at(key >> 8).Store(r)
	return r, nil
}

// take finds a free index and its next key: an index never used as long as there
// is one, so that a stale key meets another region's slot as late as possible.
func (t *Table) take() (key uint32, err error) {
	var index uint32
	switch {
	case t.next <= t.limit:
		index = t.next
		t.next++
		*t.keys(index) = newKeySeq(t.rnd())
	case len(t.free) == 0:
		return 0, fmt.Errorf("%w: all %d are in use; deregister some", ErrFull, t.limit)
	default:
		index = t.free[0]
		t.free = t.free[1:]
	}
	t.live++
	return index<<8 | uint32(t.keys(index).next()), nil
}

// giveBack makes index free for the next.
func (t *Table) giveBack(index uint32) {
	t.free = append(t.free, index)
	t.live--
}

// Deregister takes r out of the table: no later Access finds it. Who has found
// it before may still use it, so the caller lets every worker pass a point
// where it holds no region before the memory goes. Errors: ErrNotRegistered, and
// ErrBound while aliases have bytes of it.
func (t *Table) Deregister(r *Region) error {
	if r == nil || r.table != t {
		return fmt.Errorf("%w in this table", ErrNotRegistered)
	}
	index := r.key >> 8
	t.mu.Lock()
	defer t.mu.Unlock()
	owner := t.owner(index)
	if *owner != r {
		return fmt.Errorf("%w: key %#08x was deregistered before", ErrNotRegistered, r.key)
	}
	if r.bound != 0 {
		return boundErr(r.bound)
	}
	t.unpublish(r)
	*owner = nil
	t.giveBack(index)
	return nil
}

func (t *Table) unpublish(r *Region) { t.at(r.key>>8).CompareAndSwap(r, nil) }

func boundErr(n int) error {
	return fmt.Errorf("%w by %d memory windows and fast-registered regions: invalidate or deallocate them first", ErrBound, n)
}

// Count is the number of registered regions and allocated aliases.
func (t *Table) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live
}

// check says what is wrong with the rights and the range of a region.
func (r *Region) check() error {
	if r.kind == indirect && r.access&ibv.AccessRemoteAtomic != 0 {
		return fmt.Errorf("%w: REMOTE_ATOMIC needs memory of AllocBuffer, this memory is reached through another process", ErrAccess)
	}
	if r.implicit() && r.access&ibv.AccessMWBind != 0 {
		return fmt.Errorf("%w: no window can be bound to an implicit region", ErrAccess)
	}
	if err := checkAccess(r.access); err != nil {
		return err
	}
	return checkRange(r.start, r.length, r.access)
}

// Rights that grant nothing. ON_DEMAND says how memory is reached, which is up to
// who registers it; the others change nothing: copies are by CPU, and the order of
// stores is fixed.
const hints = ibv.AccessOnDemand | ibv.AccessHugeTLB | ibv.AccessRelaxedOrdering

const known = ibv.AccessLocalWrite | ibv.AccessRemoteWrite | ibv.AccessRemoteRead | ibv.AccessRemoteAtomic |
	ibv.AccessMWBind | ibv.AccessZeroBased | ibv.AccessFlushGlobal | hints

func checkAccess(a ibv.Access) error {
	switch {
	case a&ibv.AccessFlushPersistent != 0:
		return fmt.Errorf("%w: FLUSH_PERSISTENT needs persistent memory, which this device does not have", ErrAccess)
	case a&^known != 0:
		return fmt.Errorf("%w: unknown bits %#x", ErrAccess, uint32(a&^known))
	case a&ibv.AccessLocalWrite != 0:
		return nil
	// IBTA vol. 1, 11.2.7: remote rights to change memory need the local one.
	case a&ibv.AccessRemoteWrite != 0:
		return fmt.Errorf("%w: REMOTE_WRITE needs LOCAL_WRITE", ErrAccess)
	case a&ibv.AccessRemoteAtomic != 0:
		return fmt.Errorf("%w: REMOTE_ATOMIC needs LOCAL_WRITE", ErrAccess)
	}
	return nil
}

func checkRange(va, n uint64, a ibv.Access) error {
	switch {
	case n == 0:
		return fmt.Errorf("%w: no bytes", ErrRange)
	case n-1 > math.MaxUint64-va:
		return fmt.Errorf("%w: %d bytes at %#x pass the end of the address space", ErrRange, n, va)
	case n > math.MaxInt64:
		return fmt.Errorf("%w: %d bytes, at most 2^63-1", ErrRange, n)
	case a&ibv.AccessZeroBased != 0 && va != 0:
		return fmt.Errorf("%w: a ZERO_BASED region starts at 0, not at %#x", ErrRange, va)
	}
	return nil
}
