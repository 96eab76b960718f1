package datapath

import (
	"cmp"
	"slices"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// Resources are the objects of a device, of all clients, for people who operate it.
// Lists are ordered by number.
type Resources struct {
	Clients []ClientResource
	PDs     []PDResource
	CQs     []CQResource
	QPs     []QPResource
	MRs     []MRResource
	SRQs    []SRQResource
}

// ClientResource is a client. That which has opened the device is the first.
type ClientResource struct {
	Client         *Client
	Usage          Usage
	Packets, Bytes uint64 // sent by its queue pairs, headers included; without those of XRC targets
}

// PDResource is a protection domain.
type PDResource struct {
	PDN     uint32
	Client  *Client
	Objects int // in it
}

// CQResource is a completion queue.
type CQResource struct {
	CQN        uint32
	Client     *Client
	Entries    int
	Users      int // queue pairs, and shared receive queues of XRC domains
	Moderated  bool
	Overflowed bool
}

// QPResource is a queue pair. Attr is what Query tells: the state, the peer's number
// and the PSNs that come next among it. There is no alternate path: the path migration
// state is always MIGRATED.
type QPResource struct {
	QPN     uint32
	Client  *Client // of an XRC target, who has made it
	Type    ibv.QPType
	PDN     uint32 // 0: an XRC target
	Worker  int
	SendCQN uint32 // 0: none, as below
	RecvCQN uint32
	SRQ     bool
	Attr    ibv.QPAttr
}

// MRResource is a memory region.
type MRResource struct {
	Handle     uint64
	Client     *Client
	LKey, RKey uint32
	Addr, Len  uint64
	PDN        uint32
	Access     ibv.Access
	Valid      bool // its memory has not been taken away
}

// SRQResource is a shared receive queue.
type SRQResource struct {
	Num    uint32 // in its XRC domain, 0: it is in none
	Client *Client
	PDN    uint32
	Users  int // queue pairs
	MaxWR  int
}

// Resources tells what there is on the device. What comes or goes meanwhile is in it or
// not.
func (d *Device) Resources() (Resources, error) {
	var r Resources
	if d.closed.Load() {
		return r, ErrClosed
	}
	d.addObjects(&r)
	srqs := keysOf(d, d.srqs)
	r.SRQs = make([]SRQResource, 0, len(srqs))
	walk(d, srqs, func(s *srq) {
		r.SRQs = append(r.SRQs, SRQResource{Num: s.t.Num(), Client: s.owner, PDN: s.pd, Users: s.users})
	})
	for i, s := range srqs { // whose own lock comes before the device's
		attr, err := s.Query()
		if err != nil {
			return r, err
		}
		r.SRQs[i].MaxWR = attr.MaxWR
	}
	for _, q := range keysOf(d, d.qps) {
		attr, err := q.Query()
		if err != nil {
			return r, err
		}
		r.QPs = append(r.QPs, q.resource(&attr))
	}
	walk(d, *d.clients.Load(), func(c *Client) {
		r.Clients = append(r.Clients, ClientResource{Client: c, Usage: c.use})
	})
	if err := d.addTraffic(r.Clients); err != nil {
		return r, err
	}
	r.sort()
	return r, nil
}

// addObjects adds those that the device's lock alone guards.
func (d *Device) addObjects(r *Resources) {
	pds := keysOf(d, d.pds)
	r.PDs = make([]PDResource, 0, len(pds))
	walk(d, pds, func(n uint32) {
		if p := d.pds[n]; p != nil {
			r.PDs = append(r.PDs, PDResource{n, p.owner, p.objects})
		}
	})
	mrs := keysOf(d, d.mrs)
	r.MRs = make([]MRResource, 0, len(mrs))
	walk(d, mrs, func(h uint64) {
		if m := d.mrs[h]; m != nil && m.r != nil {
			r.MRs = append(r.MRs, MRResource{h, m.owner, m.r.LKey(), m.r.RKey(), m.r.Start(), m.r.Len(), uint32(m.r.PD()), m.r.Access(), m.r.Valid()})
		}
	})
	cqs := keysOf(d, d.cqs)
	r.CQs = make([]CQResource, 0, len(cqs))
	walk(d, cqs, func(c *cq) {
		if c.gone {
			return
		}
		count, period := c.t.Moderation()
		r.CQs = append(r.CQs, CQResource{c.num, c.owner, c.Ring().Entries(), len(c.users), count != 0 || period != 0, c.t.Overflowed()})
	})
}

func (q *qp) resource(attr *ibv.QPAttr) QPResource {
	r := QPResource{
		QPN: q.num, Client: q.owner, Type: q.cfg.Type, PDN: uint32(q.cfg.PD), Worker: q.w.id, SRQ: q.srq != nil, Attr: *attr,
	}
	if c := q.cfg.SendCQ; c != nil {
		r.SendCQN = c.Owner.(*cq).num
	}
	if c := q.cfg.RecvCQ; c != nil {
		r.RecvCQN = c.Owner.(*cq).num
	}
	return r
}

// addTraffic adds what clients have sent.
func (d *Device) addTraffic(list []ClientResource) error {
	for i, w := range d.workers {
		if err := w.acquire(); err != nil {
			return err
		}
		for k := range list {
			t := &list[k].Client.lanes[i].sent
			list[k].Packets += t.packets
			list[k].Bytes += t.bytes
		}
		w.release(controller)
	}
	return nil
}

func (r *Resources) sort() {
	slices.SortFunc(r.PDs, func(a, b PDResource) int { return cmp.Compare(a.PDN, b.PDN) })
	slices.SortFunc(r.CQs, func(a, b CQResource) int { return cmp.Compare(a.CQN, b.CQN) })
	slices.SortFunc(r.QPs, func(a, b QPResource) int { return cmp.Compare(a.QPN, b.QPN) })
	slices.SortFunc(r.MRs, func(a, b MRResource) int { return cmp.Compare(a.Handle, b.Handle) })
	slices.SortFunc(r.SRQs, func(a, b SRQResource) int { return cmp.Compare(a.Num, b.Num) })
}
