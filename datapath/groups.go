package datapath

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// Limits of multicast: the groups of rdma_rxe, and as many queue pairs of a group
// as may get copies of one datagram without holding up everything else.
const (
	maxGroups       = 8192
	maxGroupMembers = 256
)

// group are the queue pairs that are attached to a multicast group. It does not
// change: another takes its place.
type group struct {
	members [][]*qp // by worker
	workers uint64  // those with members
	n       int
}

// with is g and q; g may be nil.
func (g *group) with(q *qp, workers int) *group {
	next := &group{members: make([][]*qp, workers), n: 1}
	if g != nil {
		next.n += g.n
		next.workers = g.workers
		copy(next.members, g.members)
	}
	id := q.w.id
	next.members[id] = append(slices.Clone(next.members[id]), q)
	next.workers |= 1 << id
	return next
}

// without is g but for q, nil if that was all.
func (g *group) without(q *qp) *group {
	if g.n == 1 {
		return nil
	}
	id := q.w.id
	next := &group{members: slices.Clone(g.members), workers: g.workers, n: g.n - 1}
	next.members[id] = slices.DeleteFunc(slices.Clone(g.members[id]), func(m *qp) bool { return m == q })
	if len(next.members[id]) == 0 {
		next.workers &^= 1 << id
	}
	return next
}

func (g *group) has(q *qp) bool { return g != nil && slices.Contains(g.members[q.w.id], q) }

// groupTable has the groups of a device. Workers read it without a lock. It is in
// parts, so that a change does not copy all of it.
type groupTable struct {
	parts [groupParts]atomic.Pointer[map[ibv.GID]*group]

	changing sync.Mutex // held while something is attached or detached; before the device's lock
	n        int        // groups; guarded by changing
}

const groupParts = 64

// part is where the group of an address is: what differs between groups is at the end,
// in either byte order.
func (t *groupTable) part(gid *ibv.GID) *atomic.Pointer[map[ibv.GID]*group] {
	return &t.parts[(gid[12]^gid[13]^gid[14]^gid[15])%groupParts]
}

// get is the group of an address, nil if nobody is attached to it.
func (t *groupTable) get(gid ibv.GID) *group {
	m := t.part(&gid).Load()
	if m == nil {
		return nil
	}
	return (*m)[gid]
}

// put makes g the group of an address, nil none. The lock is held.
func (t *groupTable) put(gid ibv.GID, g *group) {
	part, next := t.part(&gid), map[ibv.GID]*group{}
	if m := part.Load(); m != nil {
		next = maps.Clone(*m)
	}
	t.n -= len(next)
	if next[gid] = g; g == nil {
		delete(next, gid)
	}
	t.n += len(next)
	part.Store(&next)
}

// of are the groups that q is attached to, which nobody changes meanwhile.
func (t *groupTable) of(q *qp) (list []ibv.GID) {
	for i := range t.parts {
		m := t.parts[i].Load()
		if m == nil {
			continue
		}
		for gid, g := range *m {
			if g.has(q) {
				list = append(list, gid)
			}
		}
	}
	return list
}

// AttachMulticast has the queue pair receive what is sent to a group. The first
// of a device has the kernel join it, whose reports (IGMP, MLD) tell switches and
// routers, and its frames steered.
func (q *qp) AttachMulticast(gid ibv.GID) error {
	if err := q.checkGroup(gid); err != nil {
		return err
	}
	q.modify.Lock()
	defer q.modify.Unlock()
	d := q.dev
	if q.destroyed || d.closed.Load() {
		return ErrClosed
	}
	t := &d.groups
	t.changing.Lock()
	defer t.changing.Unlock()
	g := t.get(gid)
	switch {
	case g.has(q):
		return nil
	case g == nil && t.n >= maxGroups:
		return fmt.Errorf("%w: %d multicast groups", ErrLimit, maxGroups)
	case g != nil && g.n >= maxGroupMembers:
		return fmt.Errorf("%w: %d queue pairs are attached to %s", ErrLimit, maxGroupMembers, gid.Addr())
	}
	c := q.owner
	if err := c.charge(&c.use.Groups, c.limits.Groups, "attachments to multicast groups"); err != nil {
		return err
	}
	if g == nil {
		if err := d.enterGroup(gid); err != nil {
			c.discharge(&c.use.Groups)
			return err
		}
	}
	t.put(gid, g.with(q, len(d.workers)))
	q.groups++
	return nil
}

// DetachMulticast undoes AttachMulticast and returns when nothing of the group
// reaches the queue pair any more.
func (q *qp) DetachMulticast(gid ibv.GID) error {
	if err := q.checkGroup(gid); err != nil {
		return err
	}
	q.modify.Lock()
	defer q.modify.Unlock()
	d := q.dev
	if q.destroyed || d.closed.Load() {
		return ErrClosed
	}
	if !d.groups.get(gid).has(q) {
		return fmt.Errorf("%w: queue pair %#x is not attached to %s", ErrInvalid, q.num, gid.Addr())
	}
	err := d.detach(q, gid)
	// Who looked the group up before holds the worker's lock. An error says that
	// the device is closed: nothing runs after it.
	_ = q.w.quiesce()
	return err
}

func (q *qp) checkGroup(gid ibv.GID) error {
	a := gid.Addr()
	switch {
	case q.cfg.Type != ibv.QPTypeUD:
		return fmt.Errorf("%w: a queue pair of type %v: multicast is of datagrams (UD)", ErrInvalid, q.cfg.Type)
	case !a.IsMulticast():
		return fmt.Errorf("%w: %s is not the address of a multicast group", ErrInvalid, a)
	case a.IsInterfaceLocalMulticast():
		return fmt.Errorf("%w: packets to %s never leave a host", ErrInvalid, a)
	}
	return nil
}

// enterGroup joins a group and has its frames steered.
func (d *Device) enterGroup(gid ibv.GID) error {
	a := gid.Addr()
	if err := d.joins.join(a); err != nil {
		return err
	}
	if err := d.steer.AddAddress(a); err != nil {
		_ = d.joins.leave(a) // the first error is the one to report
		return err
	}
	return nil
}

// detach takes q out of a group that it is in; the last one leaves it. q's worker may
// still go by what the group was.
func (d *Device) detach(q *qp, gid ibv.GID) (err error) {
	d.groups.changing.Lock()
	defer d.groups.changing.Unlock()
	next := d.groups.get(gid).without(q)
	d.groups.put(gid, next)
	q.groups--
	q.owner.discharge(&q.owner.use.Groups)
	if next == nil {
		err = d.steer.DelAddress(gid.Addr())
		if e := d.joins.leave(gid.Addr()); err == nil {
			err = e
		}
	}
	return err
}

// detachAll takes q out of all groups that it is in. There may be thousands, and others
// attach in between. q's worker is done with them when it has let go of its lock.
func (d *Device) detachAll(q *qp) (err error) {
	if q.groups == 0 {
		return nil
	}
	for _, gid := range d.groups.of(q) {
		if e := d.detach(q, gid); err == nil {
			err = e
		}
	}
	return err
}
