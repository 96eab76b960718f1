package memory

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

// pattern is n bytes that differ from their neighbours.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)*7 + seed
	}
	return b
}

// fakeIndirect is memory behind a map of its own: 64 KiB from address base on.
type fakeIndirect struct {
	base uint64
	mem  []byte
	fail *bool
	log  *[]uint64 // addresses written
}

var errGone = errors.New("memory is gone")

func (f fakeIndirect) at(va uint64, n int) ([]byte, error) {
	if *f.fail {
		return nil, errGone
	}
	off := va - f.base
	return f.mem[off : off+uint64(n)], nil
}

func (f fakeIndirect) ReadAt(dst []byte, va uint64) error {
	b, err := f.at(va, len(dst))
	copy(dst, b)
	return err
}

func (f fakeIndirect) WriteAt(src []byte, va uint64) error {
	b, err := f.at(va, len(src))
	copy(b, src)
	*f.log = append(*f.log, va)
	return err
}

func newIndirect(base uint64, n int) fakeIndirect {
	return fakeIndirect{base: base, mem: make([]byte, n), fail: new(bool), log: new([]uint64)}
}

// each runs f on a region of 256 bytes at 0x1000 of each kind.
func each(t *testing.T, f func(t *testing.T, r *Region, mem []byte)) {
	t.Helper()
	tab := newTable(4)
	t.Run("direct", func(t *testing.T) {
		mem := make([]byte, 256)
		f(t, mustRegister(t, tab, 0x1000, mem, allRemote), mem)
	})
	t.Run("revocable", func(t *testing.T) {
		mem := make([]byte, 256)
		r, err := tab.RegisterRevocable(1, 0x1000, mem, allRemote)
		if err != nil {
			t.Fatal(err)
		}
		f(t, r, mem)
	})
	t.Run("indirect", func(t *testing.T) {
		ind := newIndirect(0x1000, 256)
		r, err := tab.RegisterIndirect(1, 0x1000, 256, ind, noAtomics)
		if err != nil {
			t.Fatal(err)
		}
		f(t, r, ind.mem)
	})
}

func TestReadAndWrite(t *testing.T) {
	each(t, func(t *testing.T, r *Region, mem []byte) {
		src := pattern(100, 3)
		if !r.Write(0x1010, src) || !bytes.Equal(mem[0x10:0x10+100], src) {
			t.Error("not written")
		}
		if mem[0xf] != 0 || mem[0x10+100] != 0 {
			t.Error("written outside")
		}
		dst := make([]byte, 100)
		if !r.Read(0x1010, dst) || !bytes.Equal(dst, src) {
			t.Error("not read")
		}
		if !r.Write(0x1000, nil) || !r.Read(0x1100, nil) || !r.WriteFinal(0x1100, nil) {
			t.Error("nothing at the edge was refused")
		}
		all := pattern(256, 9)
		if !r.Write(0x1000, all) || !bytes.Equal(mem, all) {
			t.Error("all of it was not written")
		}
	})
}

func TestOutsideTouchesNothing(t *testing.T) {
	each(t, func(t *testing.T, r *Region, mem []byte) {
		before := bytes.Clone(mem)
		for _, tc := range []struct {
			va uint64
			n  int
		}{
			{0xfff, 1}, {0xfff, 2}, {0x1100, 1}, {0x10ff, 2}, {0x1000, 257}, {0, 1}, {math.MaxUint64, 1}, {math.MaxUint64, 4096}, {0x1101, 0},
		} {
			buf := pattern(tc.n, 1)
			if r.Write(tc.va, buf) || r.WriteFinal(tc.va, buf) || r.Read(tc.va, buf) || r.Slice(tc.va, tc.n) != nil {
				t.Errorf("%d bytes at %#x were allowed", tc.n, tc.va)
			}
			if !bytes.Equal(buf, pattern(tc.n, 1)) {
				t.Errorf("%d bytes at %#x were read", tc.n, tc.va)
			}
		}
		if !bytes.Equal(mem, before) {
			t.Error("memory changed")
		}
		if !r.Valid() {
			t.Error("a wrong range revoked the region")
		}
	})
}

func TestSlice(t *testing.T) {
	each(t, func(t *testing.T, r *Region, mem []byte) {
		s := r.Slice(0x1020, 16)
		if r.kind != direct {
			if s != nil {
				t.Error("memory that may go away was handed out")
			}
			return
		}
		if len(s) != 16 || cap(s) != 16 || &s[0] != &mem[0x20] {
			t.Errorf("length %d, capacity %d", len(s), cap(s))
		}
		if r.Slice(0x1000, -1) != nil {
			t.Error("negative length")
		}
	})
}

func TestIndirectErrorRevokes(t *testing.T) {
	for name, access := range map[string]func(*Region) bool{
		"read":        func(r *Region) bool { return r.Read(0x1000, make([]byte, 8)) },
		"write":       func(r *Region) bool { return r.Write(0x1000, make([]byte, 8)) },
		"final write": func(r *Region) bool { return r.WriteFinal(0x1000, make([]byte, 20)) },
	} {
		tab := newTable(1)
		ind := newIndirect(0x1000, 256)
		r, err := tab.RegisterIndirect(1, 0x1000, 256, ind, noAtomics)
		if err != nil {
			t.Fatal(err)
		}
		if !access(r) || !r.Valid() {
			t.Fatalf("%s: refused while the memory is there", name)
		}
		*ind.fail = true
		if access(r) || r.Valid() {
			t.Errorf("%s: still valid", name)
		}
		if _, f := tab.Check(r.RKey(), 1, 0, 0x1000, 8); f != FaultKey {
			t.Errorf("%s: the key gives %v", name, f)
		}
		// Memory that comes back does not bring the region back.
		*ind.fail = false
		*ind.log = nil
		if access(r) || len(*ind.log) != 0 {
			t.Errorf("%s: used after it was revoked", name)
		}
		// The slot is taken until the owner gives it back.
		if _, err := tab.Register(1, 0, make([]byte, 8), 0); !errors.Is(err, ErrFull) {
			t.Errorf("%s: slot reused: %v", name, err)
		}
		if err := tab.Deregister(r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		mustRegister(t, tab, 0, make([]byte, 8), 0)
	}
}
