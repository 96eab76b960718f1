package transport_test

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// worldMemory is a host's memory: one region, handed out piece by piece, with
// bytes between the pieces that nobody may touch. want is what all of it must be
// in the end, but for pieces that are loose: nobody says what a request that
// failed has left there, and some are checked apart.
type worldMemory struct {
	w      *world
	bytes  []byte
	want   []byte
	loose  []span
	next   int
	region *memory.Region
	adds   span // words that FETCH_ADDs of all connections meet at
	locks  span // words that COMP_SWAPs of all connections meet at
}

const (
	worldAdds  = 2
	worldLocks = 2
)

// maxMessage is the longest message of the connections of a host.
func (w *world) maxMessage(host int) int {
	n := 0
	for _, c := range w.conns {
		if c.hosts[0] == host || c.hosts[1] == host {
			n = max(n, pairMaxMsg(c.mtu.Bytes()))
		}
	}
	return n
}

// memorySize is how much memory the programs of a host can use.
func (w *world) memorySize(host int) int {
	most := w.maxMessage(host) + 128
	pieces := 16 + 2*(w.worldParams.hosts[host].srqDepth+8)
	for _, c := range w.conns {
		for i, h := range c.hosts {
			if h == host { // data and results, receives, targets of its peer's WRITEs
				pieces += 2*c.ops[i] + c.rqDepth + 2 + c.ops[1-i]
			}
		}
	}
	return pieces*most + 4096
}

func (m *worldMemory) init(w *world, table *memory.Table, size int) {
	m.w, m.bytes, m.want = w, alignedTo8(size), make([]byte, size)
	r, err := table.Register(1, pairVA, m.bytes, pairPeerAccess|ibv.AccessLocalWrite|ibv.AccessMWBind)
	w.must(err)
	m.region = r
	m.adds, m.locks = m.take(8*worldAdds, 8), m.take(8*worldLocks, 8)
	m.loose = append(m.loose, m.adds, m.locks)
}

// take hands out n bytes.
func (m *worldMemory) take(n, align int) span {
	m.next = (m.next + align - 1) / align * align
	s := span{m.next, n}
	m.next += n + 3
	if m.next > len(m.bytes) {
		m.w.failf("the programs need more than %d bytes", len(m.bytes))
	}
	return s
}

// scatter cuts n bytes of new memory into entries, some of them empty.
func (m *worldMemory) scatter(n int) (sges []queue.SGE, at []span) {
	rnd, k := m.w.rnd, 1+m.w.rnd.IntN(pairSGE)
	for i := range k {
		part := n
		if i < k-1 {
			part = rnd.IntN(n + 1)
		}
		n -= part
		if part == 0 { // nobody looks at the key of nothing
			sges = append(sges, queue.SGE{Addr: rnd.Uint64(), LKey: rnd.Uint32()})
			continue
		}
		s := m.take(part, 1)
		at = append(at, s)
		sges = append(sges, queue.SGE{Addr: pairVA + uint64(s.off), Length: uint32(part), LKey: m.region.LKey()})
	}
	return sges, at
}

// put is what a program writes into its own memory.
func (m *worldMemory) put(at []span, data []byte) {
	for _, s := range at {
		copy(m.bytes[s.off:s.off+s.n], data)
		data = data[copy(m.want[s.off:s.off+s.n], data):]
	}
}

// fill is put with the same byte everywhere.
func (m *worldMemory) fill(at []span, b byte) {
	for _, s := range at {
		for i := s.off; i < s.off+s.n; i++ {
			m.bytes[i], m.want[i] = b, b
		}
	}
}

// expect has the bytes of spans be data from now on, which they are already.
func (m *worldMemory) expect(at []span, data []byte) bool {
	for _, s := range at {
		n := min(s.n, len(data))
		if firstDiff(m.bytes[s.off:s.off+n], data[:n]) >= 0 {
			return false
		}
		data = data[copy(m.want[s.off:s.off+n], data):]
	}
	return len(data) == 0
}

// check compares all memory with what it must be.
func (m *worldMemory) check(host int) {
	for _, s := range m.loose {
		copy(m.want[s.off:s.off+s.n], m.bytes[s.off:s.off+s.n])
	}
	if at := firstDiff(m.bytes[:m.next], m.want[:m.next]); at >= 0 {
		m.w.failf("host %d: byte %#x of the memory is %#x, want %#x", host, at, m.bytes[at], m.want[at])
	}
}
