package serve

import (
	"time"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
)

// Client is what the server knows of a client and of what it has. Handles are those
// that the client uses.
type Client struct {
	ID     uint64 // of the connection, never used again
	Cred          // of the process that connected
	Comm   string // its name then
	Since  time.Time
	Device string // empty: none is open
	Shared int64  // bytes of memory shared with it
	Usage  datapath.Usage
	Counts Counts

	PDs  []datapath.PDUse
	QPs  []QP
	CQs  []CQ
	SRQs []SRQ
	MRs  []MR
	IDs  []CMID
}

// Counts are how many there are of the objects that a snapshot lists.
type Counts struct{ PDs, QPs, CQs, SRQs, MRs, IDs int }

// QP is a queue pair of a client.
type QP struct {
	Handle         uint64
	QPN            uint32
	Type           ibv.QPType
	PD, XRCD       uint32
	SendCQ, RecvCQ uint64 // handles, 0: none
	SRQ            uint64
	Attr           ibv.QPAttr // what Query tells, the state among it
}

// CQ is a completion queue of a client.
type CQ struct {
	Handle  uint64
	Entries int
	Users   int // ends of queue pairs, and shared receive queues
}

// SRQ is a shared receive queue of a client.
type SRQ struct {
	Handle   uint64
	Num      uint32 // in its XRC domain
	PD, XRCD uint32
	Attr     ibv.SRQAttr
}

// MR is a memory region of a client.
type MR struct {
	Handle     uint64
	PD         uint32
	LKey, RKey uint32
	Addr       uint64
	Length     uint64 // 0: implicit
	Shared     bool   // on memory of AllocBuffer
}

// CMID is an id of the connection manager.
type CMID struct {
	ID   cmfsm.ID
	Info cmfsm.Info
}

// Snapshot tells of all clients, by ID, and of their objects of the kinds "pd", "qp",
// "cq", "srq", "mr" and "cm_id": of one kind, or of all with an empty one. Who wants none
// names another; listing what clients have many of takes long, and time of the workers.
// What changes meanwhile is in it or not.
func (s *Server) Snapshot(kind string) []Client {
	list := s.of(nil)
	clients := make([]Client, 0, len(list))
	for _, n := range list {
		clients = append(clients, n.snapshot(kind))
	}
	return clients
}

func (s *session) snapshot(kind string) Client {
	c := Client{ID: s.id, Cred: s.cred, Comm: s.comm, Since: s.since}
	if r := s.opened(); r != nil {
		c.Device, c.Usage = r.dev.name, r.ns.Usage()
		_, c.Shared = r.mem.Bytes()
		c.Counts = Counts{PDs: c.Usage.PDs, QPs: r.qps.len(), CQs: r.cqs.len(), SRQs: r.srqs.len(), MRs: r.mrs.len()}
		r.list(kind, &c)
	}
	m := s.connections()
	if m == nil {
		return c
	}
	c.Counts.IDs = m.count()
	if kind != "" && kind != "cm_id" {
		return c
	}
	for _, id := range m.list() {
		if i, err := m.client.Info(id); err == nil {
			c.IDs = append(c.IDs, CMID{ID: id, Info: i})
		}
	}
	return c
}

// list fills in the objects of a kind, or all.
func (r *resources) list(kind string, c *Client) {
	for name, fill := range map[string]func(){
		"pd":  func() { c.PDs = r.ns.PDs() },
		"qp":  func() { c.QPs = r.listQPs() },
		"cq":  func() { c.CQs = r.listCQs() },
		"srq": func() { c.SRQs = r.listSRQs() },
		"mr":  func() { c.MRs = r.listMRs() },
	} {
		if kind == "" || kind == name {
			fill()
		}
	}
}

func (r *resources) listQPs() (list []QP) {
	r.qps.each(func(h uint64, q queuePair) {
		a, err := q.p.Query()
		if err != nil {
			return // it is being destroyed
		}
		list = append(list, QP{
			Handle: h, QPN: q.p.QPN(), Type: q.typ, PD: q.pd, XRCD: q.xrcd, SendCQ: q.send, RecvCQ: q.recv, SRQ: q.srq, Attr: a,
		})
	})
	return list
}

func (r *resources) listCQs() (list []CQ) {
	users := map[uint64]int{}
	r.qps.each(func(_ uint64, q queuePair) { users[q.send]++; users[q.recv]++ })
	r.srqs.each(func(_ uint64, s srq) { users[s.cq]++ })
	r.cqs.each(func(h uint64, c *completions) {
		if a, err := c.p.Query(); err == nil {
			list = append(list, CQ{Handle: h, Entries: a.Entries, Users: users[h]})
		}
	})
	return list
}

func (r *resources) listSRQs() (list []SRQ) {
	r.srqs.each(func(h uint64, s srq) {
		if a, err := s.p.Query(); err == nil {
			list = append(list, SRQ{Handle: h, Num: s.p.Num(), PD: s.pd, XRCD: s.xrcd, Attr: a})
		}
	})
	return list
}

func (r *resources) listMRs() (list []MR) {
	r.mrs.each(func(h uint64, m region) {
		list = append(list, MR{
			Handle: h, PD: m.pd, LKey: m.p.LKey, RKey: m.p.RKey, Addr: m.p.Addr, Length: m.length, Shared: m.kind == proto.MemoryShared,
		})
	})
	return list
}
