package memory

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// modelRegion is what the model knows of a region that was registered.
type modelRegion struct {
	r        *Region
	key      uint32
	pd       PD
	access   ibv.Access
	start, n uint64
	want     []byte // contents
	live     bool
}

// TestTableModel runs random registrations and accesses beside a list of
// regions searched one by one.
func TestTableModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const limit = 5
		tab := NewTable(limit, func() uint32 { return rapid.Uint32().Draw(rt, "rnd") })
		var all []*modelRegion
		live := func() (n int) {
			for _, m := range all {
				if m.live {
					n++
				}
			}
			return n
		}
		pick := func(rt *rapid.T) *modelRegion {
			if len(all) == 0 {
				rt.Skip("no region yet")
			}
			return all[rapid.IntRange(max(0, len(all)-8), len(all)-1).Draw(rt, "region")]
		}
		span := func(rt *rapid.T, m *modelRegion) (va, n uint64) {
			return m.start + uint64(rapid.Int64Range(-2, 66).Draw(rt, "offset")), uint64(rapid.IntRange(0, 66).Draw(rt, "n"))
		}
		inside := func(m *modelRegion, va, n uint64) bool {
			for i := range n {
				if off := va + i - m.start; off >= m.n {
					return false
				}
			}
			return n > 0 || va-m.start <= m.n
		}
		rt.Repeat(map[string]func(*rapid.T){
			"register": func(rt *rapid.T) {
				m := &modelRegion{
					pd:     PD(rapid.IntRange(1, 2).Draw(rt, "pd")),
					access: ibv.Access(rapid.IntRange(0, 15).Draw(rt, "access")),
					start:  rapid.SampledFrom([]uint64{0, 0x1000, 1<<64 - 64, 1<<63 - 8}).Draw(rt, "start"),
					n:      uint64(rapid.IntRange(1, 64).Draw(rt, "len")),
				}
				m.want = make([]byte, m.n)
				r, err := tab.Register(m.pd, m.start, make([]byte, m.n), m.access)
				legal := m.access&ibv.AccessLocalWrite != 0 || m.access&(ibv.AccessRemoteWrite|ibv.AccessRemoteAtomic) == 0
				switch {
				case !legal:
					if !errors.Is(err, ErrAccess) {
						rt.Fatalf("%v gave %v", m.access, err)
					}
				case live() == limit:
					if !errors.Is(err, ErrFull) {
						rt.Fatalf("full table gave %v", err)
					}
				case err != nil:
					rt.Fatal(err)
				default:
					m.r, m.key, m.live = r, r.RKey(), true
					all = append(all, m)
				}
			},
			"deregister": func(rt *rapid.T) {
				m := pick(rt)
				if err := tab.Deregister(m.r); (err == nil) != m.live {
					rt.Fatalf("live %v: %v", m.live, err)
				}
				m.live = false
			},
			"access": func(rt *rapid.T) {
				m := pick(rt)
				va, n := span(rt, m)
				pd := PD(rapid.IntRange(1, 2).Draw(rt, "pd"))
				need := ibv.Access(rapid.IntRange(0, 15).Draw(rt, "need"))
				want := FaultNone
				switch {
				case !m.live:
					want = FaultKey
				case m.pd != pd:
					want = FaultPD
				case need&^m.access != 0:
					want = FaultAccess
				case !inside(m, va, n):
					want = FaultRange
				}
				r, got := tab.Check(m.key, pd, need, va, n)
				if got != want || want == FaultNone && r != m.r {
					rt.Fatalf("%v, want %v", got, want)
				}
			},
			"write": func(rt *rapid.T) {
				m := pick(rt)
				va, n := span(rt, m)
				src := rapid.SliceOfN(rapid.Byte(), int(n), int(n)).Draw(rt, "src")
				ok := false
				if rapid.Bool().Draw(rt, "final") {
					ok = m.r.WriteFinal(va, src)
				} else {
					ok = m.r.Write(va, src)
				}
				if ok != inside(m, va, n) {
					rt.Fatalf("%d bytes at %#x: %v", n, va, ok)
				}
				if ok {
					copy(m.want[va-m.start:], src)
				}
			},
			"add": func(rt *rapid.T) {
				m := pick(rt)
				va, _ := span(rt, m)
				add := rapid.Uint64().Draw(rt, "add")
				orig, ok := m.r.FetchAdd(va, add)
				if ok && (va%8 != 0 || !inside(m, va, 8)) {
					rt.Fatalf("added at %#x", va)
				}
				if !ok {
					return
				}
				word := m.want[va-m.start:]
				if w := binary.NativeEndian.Uint64(word); w != orig {
					rt.Fatalf("was %#x, want %#x", orig, w)
				}
				binary.NativeEndian.PutUint64(word, orig+add)
			},
			"": func(rt *rapid.T) {
				if tab.Count() != live() {
					rt.Fatalf("%d regions, want %d", tab.Count(), live())
				}
				for _, m := range all {
					got := make([]byte, m.n)
					if !m.r.Read(m.start, got) || !bytes.Equal(got, m.want) {
						rt.Fatalf("region %#x is %x, want %x", m.key, got, m.want)
					}
				}
			},
		})
	})
}
