package stage

import (
	"bytes"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
)

// area is a registered piece of memory that begins with a pattern of its own.
type area struct {
	*memory.Region
	mem   []byte
	fresh []byte // what it held at first
}

// AreaSize is the size of each piece of memory in bytes.
const AreaSize = 1 << 15

func (s *Stage) register(va uint64, seed byte, access ibv.Access) *area {
	s.Helper()
	a := &area{mem: aligned(AreaSize)}
	for i := range a.mem {
		a.mem[i] = seed ^ byte(i*7+i>>8)
	}
	a.fresh = bytes.Clone(a.mem)
	mr, err := s.Env.Mem.Register(domain, va, a.mem, access)
	s.must(err)
	a.Region = mr
	return a
}

// aligned is n bytes whose first has an address that is a multiple of 8.
func aligned(n int) []byte {
	b := make([]byte, n+8)
	skip := int(-memory.AddressOf(b) & 7)
	return b[skip : skip+n : skip+n]
}

// RemoteVA and RemoteKey name the memory that the peer reaches.
func (s *Stage) RemoteVA() uint64  { return s.remote.Start() }
func (s *Stage) RemoteKey() uint32 { return s.remote.RKey() }

// Remote is n bytes at off of the memory that the peer reaches, as they are now.
func (s *Stage) Remote(off, n int) []byte { return s.remote.mem[off : off+n] }

// FreshRemote is what the remote memory held when the test began.
func (s *Stage) FreshRemote(off, n int) []byte { return s.remote.fresh[off : off+n] }

// WindowKey is the key of a new window of type 2 to n bytes at off of the remote
// memory, bound with these rights through the queue pair.
func (s *Stage) WindowKey(off int, n uint64, access ibv.Access) uint32 {
	s.Helper()
	mw, err := s.Env.Mem.AllocWindow(domain, ibv.MWType2)
	s.must(err)
	b := memory.Binding{Key: mw.Key() ^ 1, LKey: s.remote.LKey(), VA: s.RemoteVA() + uint64(off), Len: n, Access: access}
	if !s.Env.Mem.BindWindow(domain, QPN, &b) {
		s.Fatalf("the window cannot be bound: %+v", b)
	}
	return b.Key
}

// SetWord puts a number into the memory that the peer reaches.
func (s *Stage) SetWord(off int, v uint64) { copy(s.remote.mem[off:], word(v)) }

// Local is n bytes at off of the memory that the program sends from and that
// READs and atomics write to.
func (s *Stage) Local(off, n int) []byte { return s.local.mem[off : off+n] }

// LocalVA and LocalKey name that memory.
func (s *Stage) LocalVA() uint64  { return s.local.Start() }
func (s *Stage) LocalKey() uint32 { return s.local.LKey() }

// RemoteHas wants data at off of the memory that the peer reaches.
func (s *Stage) RemoteHas(off int, data []byte) {
	s.Helper()
	s.has("remote memory", s.remote.mem, off, data)
}

// RemoteHasWord wants a number there.
func (s *Stage) RemoteHasWord(off int, v uint64) {
	s.Helper()
	s.RemoteHas(off, word(v))
}

// LocalHas wants data at off of the program's memory.
func (s *Stage) LocalHas(off int, data []byte) {
	s.Helper()
	s.has("local memory", s.local.mem, off, data)
}

// LocalHasWord wants a number there.
func (s *Stage) LocalHasWord(off int, v uint64) {
	s.Helper()
	s.LocalHas(off, word(v))
}

// BufferHas wants data at the start of the buffer of receive id, 101 for the
// first; BufferHasOnly wants that after it nothing has changed.
func (s *Stage) BufferHas(id int, data []byte) {
	s.Helper()
	s.has("receive buffer", s.bufs.mem, (id-firstRecv)*bufferSize, data)
}

func (s *Stage) BufferHasOnly(id int, data []byte) {
	s.Helper()
	s.BufferHas(id, data)
	rest, end := (id-firstRecv)*bufferSize+len(data), (id-firstRecv+1)*bufferSize
	s.has("receive buffer", s.bufs.mem, rest, s.bufs.fresh[rest:end])
}

// Buffer is the first n bytes of the buffer of receive id.
func (s *Stage) Buffer(id, n int) []byte {
	at := (id - firstRecv) * bufferSize
	return s.bufs.mem[at : at+n]
}

func (s *Stage) has(what string, mem []byte, off int, data []byte) {
	s.Helper()
	for i, b := range data {
		if mem[off+i] != b {
			s.Errorf("%s: byte %d of %d at %d is %#02x, want %#02x", what, i, len(data), off, mem[off+i], b)
			return
		}
	}
}

// Untouched wants all memory as it was when the test began.
func (s *Stage) Untouched() {
	s.Helper()
	s.has("local memory", s.local.mem, 0, s.local.fresh)
	s.has("remote memory", s.remote.mem, 0, s.remote.fresh)
	s.has("receive buffers", s.bufs.mem, 0, s.bufs.fresh)
}

// LoseLocal deregisters memory, as LoseRemote and LoseBuffers do: its keys are wrong
// from now on.
func (s *Stage) LoseLocal()   { s.Helper(); s.lose(s.local) }
func (s *Stage) LoseRemote()  { s.Helper(); s.lose(s.remote) }
func (s *Stage) LoseBuffers() { s.Helper(); s.lose(s.bufs) }

func (s *Stage) lose(a *area) {
	s.Helper()
	s.must(s.Env.Mem.Deregister(a.Region))
}
