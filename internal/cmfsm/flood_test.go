package cmfsm

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func heapBytes() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// A million requests, each of another queue pair, fill the backlog and nothing
// else: all but its size are refused at once, and memory does not grow.
func TestREQFlood(t *testing.T) {
	const floods, backlog = 1_000_000, 128
	w := newWorld(t, 1)
	w.listen(wire.PortSpaceTCP, backlog)
	m, from := takeREQ(w)
	req := wire.REQAt(m.Data())
	send := func(i uint32) {
		req.SetLocalCommID(i + 1)
		req.SetLocalQPN(i%(1<<23) + 2)
		w.b.Handle(w.now, from, m[:])
	}
	for i := range uint32(backlog) {
		send(i)
	}
	before := heapBytes()
	refused := 0
	for i := uint32(backlog); i < floods; i++ {
		send(i)
		if i%64 == 0 {
			for mad, ok := w.b.NextMAD(); ok; mad, ok = w.b.NextMAD() {
				if rej := wire.REJAt(mad.Data.Data()); rej.Reason() != wire.RejNoResources {
					w.fatal("REJ %v", rej.Reason())
				}
				refused++
			}
		}
	}
	if grown := int64(heapBytes()) - int64(before); grown > 1<<20 {
		w.fatal("the heap has grown by %d bytes", grown)
	}
	if w.b.Len() != backlog+1 || len(w.b.peerComm) != backlog || refused < floods-backlog-64 {
		w.fatal("%d ids, %d refused", w.b.Len(), refused)
	}
	c := w.b.Counters()
	if c[CounterBacklogFull] != floods-backlog || c[CounterTxREJ] != floods-backlog {
		w.fatal("%d over the backlog, %d REJs", c[CounterBacklogFull], c[CounterTxREJ])
	}
	// The application still gets to see what was first, and the rest is free.
	for e, ok := w.b.NextEvent(); ok; e, ok = w.b.NextEvent() {
		w.check(w.b.Reject(e.ID, 0, nil))
		w.check(w.b.Destroy(w.now, e.ID))
	}
	w.checkEmpty(w.b, 1)
}

// Requests that nobody serves leave nothing at all, of whichever kind they are, and
// a caller that never sends the answers loses them.
func TestFloodOfEverything(t *testing.T) {
	w := newWorld(t, 1)
	before := heapBytes()
	var m wire.MAD
	from := &Path{Local: w.b.addr}
	for i := range uint32(300_000) {
		m.EncodeCM(uint64(i), wire.AttrREQ+wire.CMAttr(i%11))
		binary.BigEndian.PutUint32(m.Data(), i)
		binary.BigEndian.PutUint32(m.Data()[4:], i*7)
		wire.CMAAt(wire.REQAt(m.Data()).PrivateData())[1] = 0x40
		from.Remote = netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i) | 1})
		w.b.Handle(w.now, from, m[:])
	}
	if grown := int64(heapBytes()) - int64(before); grown > 2<<20 {
		w.fatal("the heap has grown by %d bytes", grown)
	}
	w.checkEmpty(w.b, 0)
	c := w.b.Counters()
	n := 0
	for _, ok := w.b.NextMAD(); ok; _, ok = w.b.NextMAD() {
		n++
	}
	if n != w.b.cfg.MaxQueued || c[CounterQueueFull] == 0 {
		w.fatal("%d answers wait, %d are lost", n, c[CounterQueueFull])
	}
	runtime.KeepAlive(w.b)
}

// The backlog counts what the application has not decided, and is the
// listener's own.
func TestBacklog(t *testing.T) {
	w := newWorld(t, 1)
	w.listen(wire.PortSpaceTCP, 2)
	var ids []ID
	ask := func() {
		p := activeParam
		p.QPN = uint32(0x100 + len(ids))
		id := w.create(w.a, wire.PortSpaceTCP)
		w.check(w.a.Connect(w.now, id, w.route(), &p))
		ids = append(ids, id)
		w.run(100 * time.Millisecond)
	}
	for range 3 {
		ask()
	}
	if e, ok := w.a.last(EventRejected); !ok || e.ID != ids[2] || e.Status != int(wire.RejNoResources) || w.b.count(EventConnectRequest) != 2 {
		w.fatal("events of a: %+v", w.a.events)
	}
	p := passiveParam
	w.check(w.b.Accept(w.now, w.b.events[0].ID, &p))
	ask()
	if w.b.count(EventConnectRequest) != 3 {
		w.fatal("no room after Accept")
	}
	w.check(w.b.Reject(w.b.events[1].ID, 0, nil))
	ask()
	if w.b.count(EventConnectRequest) != 4 {
		w.fatal("no room after Reject")
	}
	ask()
	if w.a.count(EventRejected) != 3 || w.b.count(EventConnectRequest) != 4 {
		w.fatal("more room than the backlog: %s", names(w.a.types()))
	}
}

// Communication ids, transaction ids and PSNs do not follow from each other.
func TestNumbersAreRandom(t *testing.T) {
	w := newWorld(t, 1)
	var comm, tid, psn []uint64
	for range 64 {
		m, _ := takeREQ(w)
		req := wire.REQAt(m.Data())
		comm, tid, psn = append(comm, uint64(req.LocalCommID())), append(tid, m.TID()), append(psn, uint64(req.StartingPSN()))
	}
	for name, list := range map[string][]uint64{"communication ids": comm, "transaction ids": tid, "PSNs": psn} {
		steps := map[uint64]bool{}
		for i := 1; i < len(list); i++ {
			steps[list[i]-list[i-1]] = true
		}
		if len(steps) < 60 {
			t.Errorf("%s have %d different steps", name, len(steps))
		}
	}
}

// A communication id is not given twice, whatever the source of random numbers
// says, and is never 0.
func TestCommIDsAreUnique(t *testing.T) {
	s := &script{}
	m := New(Config{GUID: 1, Rand: s})
	connect := func() uint32 {
		id, err := m.Create(1, wire.PortSpaceIB, ibv.QPTypeRC)
		wantErr(t, "create", err, nil)
		_, err = m.Bind(id, netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), uint16(1000+m.Len())))
		wantErr(t, "bind", err, nil)
		r := Route{Local: netip.MustParseAddrPort("10.0.0.1:0"), Remote: netip.MustParseAddrPort("10.0.0.2:7"), MTU: ibv.MTU1024}
		wantErr(t, "connect", m.Connect(1, id, &r, &ConnParam{QPN: 2}), nil)
		return m.ids[id].commID
	}
	s.next = []uint64{0, 7 << 32, 1, 1, 0, 7 << 32, 8 << 32, 1, 1}
	if a, b := connect(), connect(); a != 7 || b != 8 || len(s.next) != 0 {
		t.Errorf("communication ids %d and %d", a, b)
	}
}
