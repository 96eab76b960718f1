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

	PDs  []datapath.PDUse
	QPs  []QP
	CQs  []CQ
	SRQs []SRQ
	MRs  []MR
	IDs  []CMID
}

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

// Snapshot tells of all clients, by ID. What changes meanwhile is in it or not.
func (s *Server) Snapshot() []Client {
	list := s.of(nil)
	clients := make([]Client, 0, len(list))
	for _, n := range list {
		clients = append(clients, n.snapshot())
	}
	return clients
}

func (s *session) snapshot() Client {
	c := Client{ID: s.id, Cred: s.cred, Comm: s.comm, Since: s.since}
	if r := s.opened(); r != nil {
		c.Device, c.Usage = r.dev.name, r.ns.Usage()
		_, c.Shared = r.mem.Bytes()
		c.PDs = r.ns.PDs()
		c.QPs, c.CQs, c.SRQs, c.MRs = r.listQPs(), r.listCQs(), r.listSRQs(), r.listMRs()
	}
	if m := s.connections(); m != nil {
		for _, id := range m.list() {
			if i, err := m.client.Info(id); err == nil {
				c.IDs = append(c.IDs, CMID{ID: id, Info: i})
			}
		}
	}
	return c
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
