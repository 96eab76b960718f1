package queue

import (
	"encoding/binary"
	"errors"
	"testing"
)

// newRing makes a ring with the given memory, so that tests can corrupt it.
func newRing(t testing.TB, entries, elem int) (*Ring, []byte) {
	t.Helper()
	n, _, err := Size(entries, elem)
	if err != nil {
		t.Fatal(err)
	}
	mem := alignedBytes(n)
	r, err := Format(mem, entries, elem)
	if err != nil {
		t.Fatal(err)
	}
	return r, mem
}

func TestSize(t *testing.T) {
	for _, tc := range []struct{ entries, elem, bytes, rounded int }{
		{1, 8, 384 + 8, 1},
		{2, 8, 384 + 16, 2},
		{3, 64, 384 + 256, 4},
		{256, 64, 384 + 256*64, 256},
		{257, 64, 384 + 512*64, 512},
		{MaxEntries, 8, 384 + MaxEntries*8, MaxEntries},
		{1, MaxElemSize, 384 + MaxElemSize, 1},
	} {
		bytes, rounded, err := Size(tc.entries, tc.elem)
		if err != nil || bytes != tc.bytes || rounded != tc.rounded {
			t.Errorf("Size(%d, %d) = %d, %d, %v; want %d, %d", tc.entries, tc.elem, bytes, rounded, err, tc.bytes, tc.rounded)
		}
	}
	for _, tc := range []struct{ entries, elem int }{
		{0, 64}, {-1, 64}, {MaxEntries + 1, 64}, {1, 0}, {1, 4}, {1, 7}, {1, 12}, {1, -8}, {1, MaxElemSize + 8},
	} {
		if _, _, err := Size(tc.entries, tc.elem); !errors.Is(err, ErrLayout) {
			t.Errorf("Size(%d, %d): %v, want ErrLayout", tc.entries, tc.elem, err)
		}
		if _, err := New(tc.entries, tc.elem); !errors.Is(err, ErrLayout) {
			t.Errorf("New(%d, %d): %v, want ErrLayout", tc.entries, tc.elem, err)
		}
		if _, err := Format(alignedBytes(1024), tc.entries, tc.elem); !errors.Is(err, ErrLayout) {
			t.Errorf("Format(%d, %d): %v, want ErrLayout", tc.entries, tc.elem, err)
		}
	}
}

// The header is an ABI: literal offsets.
func TestHeaderOffsets(t *testing.T) {
	r, mem := newRing(t, 5, 64)
	p, c := NewProducer(r), NewConsumer(r)
	p.Publish(3)
	c.Release(2)
	r.Arm().Store(ArmSolicited)
	for _, tc := range []struct {
		name string
		off  int
		want uint32
	}{
		{"element size", 0, 64}, {"mask", 4, 7}, {"producer", 128, 3}, {"consumer", 256, 2}, {"arm", 260, 2},
	} {
		if got := binary.NativeEndian.Uint32(mem[tc.off:]); got != tc.want {
			t.Errorf("%s at %d is %d, want %d", tc.name, tc.off, got, tc.want)
		}
	}
	p.Slot(0)[0] = 0xaa // element 3
	if mem[384+3*64] != 0xaa {
		t.Error("element 3 is not at 384+3*64")
	}
}

func TestFormatClearsTheHeader(t *testing.T) {
	n, _, err := Size(4, 64)
	if err != nil {
		t.Fatal(err)
	}
	mem := alignedBytes(n)
	for i := range mem {
		mem[i] = 0xff
	}
	r, err := Format(mem, 4, 64)
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := NewConsumer(r).Avail(); n != 0 || !ok || r.Arm().Load() != ArmNone || NewProducer(r).FreeNow() != 4 {
		t.Error("not empty")
	}
}

func TestFormatAndOpenWantRoomAndAlignment(t *testing.T) {
	n, _, err := Size(4, 64)
	if err != nil {
		t.Fatal(err)
	}
	mem := alignedBytes(n + 8)
	for name, m := range map[string][]byte{"one byte short": mem[:n-1], "off by one": mem[1 : n+1], "off by four": mem[4 : n+4], "none": nil} {
		if _, err := Format(m, 4, 64); !errors.Is(err, ErrLayout) {
			t.Errorf("Format, %s: %v", name, err)
		}
	}
	if _, err := Format(mem, 4, 64); err != nil {
		t.Errorf("8 bytes too many: %v", err)
	}
	for name, m := range map[string][]byte{"one byte short": mem[:n-1], "header only": mem[:384], "half a header": mem[:200], "none": nil} {
		if _, err := Open(m); !errors.Is(err, ErrLayout) {
			t.Errorf("Open, %s: %v", name, err)
		}
	}
	skewed := alignedBytes(n + 4)[4:]
	copy(skewed, mem[:n])
	if _, err := Open(skewed); !errors.Is(err, ErrLayout) {
		t.Errorf("Open, off by four: %v", err)
	}
}

func TestOpenSeesTheOtherSide(t *testing.T) {
	r, mem := newRing(t, 4, 64)
	peer, err := Open(mem)
	if err != nil {
		t.Fatal(err)
	}
	if peer.Entries() != 4 || peer.ElemSize() != 64 {
		t.Errorf("%d elements of %d bytes", peer.Entries(), peer.ElemSize())
	}
	p, c := NewProducer(r), NewConsumer(peer)
	p.Slot(0)[5] = 77
	p.Publish(1)
	if n, ok := c.Avail(); n != 1 || !ok || c.Slot(0)[5] != 77 {
		t.Errorf("%d elements, %v", n, ok)
	}
}

func TestOpenRefusesHeaders(t *testing.T) {
	for _, tc := range []struct {
		name       string
		elem, mask uint32
	}{
		{"no elements' size", 0, 3}, {"size 4", 4, 3}, {"size not a multiple of 8", 63, 3}, {"size too large", MaxElemSize + 8, 0},
		{"mask with a hole", 64, 5}, {"mask too large", 8, MaxEntries*2 - 1}, {"largest mask", 8, 0xffffffff}, {"more than the memory", 64, 7},
		{"product of 2^32", 65536, 0xffff},
	} {
		_, mem := newRing(t, 4, 64)
		binary.LittleEndian.PutUint32(mem[0:], tc.elem)
		binary.LittleEndian.PutUint32(mem[4:], tc.mask)
		if _, err := Open(mem); !errors.Is(err, ErrLayout) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// Who changes the geometry after Open gains nothing.
func TestGeometryIsReadOnce(t *testing.T) {
	_, mem := newRing(t, 4, 64)
	r, err := Open(mem)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(mem[0:], 1<<16)
	binary.LittleEndian.PutUint32(mem[4:], 1<<20-1)
	c := NewConsumer(r)
	if s := c.Slot(1 << 20); len(s) != 64 || cap(s) != 64 {
		t.Errorf("slot of %d bytes", len(s))
	}
}

// FuzzOpen: whatever a peer writes into the header, a ring that opens stays
// inside its memory.
func FuzzOpen(f *testing.F) {
	f.Add(uint32(64), uint32(3), uint32(0), uint32(0), uint16(640))
	f.Add(uint32(8), uint32(0), uint32(1), uint32(0), uint16(392))
	f.Add(uint32(65536), uint32(0xffff), uint32(0xffffffff), uint32(7), uint16(0xffff))
	f.Fuzz(func(t *testing.T, elem, mask, prod, cons uint32, size uint16) {
		mem := alignedBytes(int(size))
		if len(mem) >= headerSize {
			binary.LittleEndian.PutUint32(mem[0:], elem)
			binary.LittleEndian.PutUint32(mem[4:], mask)
			binary.NativeEndian.PutUint32(mem[128:], prod)
			binary.NativeEndian.PutUint32(mem[256:], cons)
		}
		r, err := Open(mem)
		if err != nil {
			if !errors.Is(err, ErrLayout) {
				t.Fatal(err)
			}
			return
		}
		c, p := NewConsumer(r), NewProducer(r)
		n, ok := c.Avail()
		if n > r.Entries() || !ok && n != 0 || ok != (int64(prod) <= int64(r.Entries())) {
			t.Fatalf("producer at %d in %d elements: %d, %v", prod, r.Entries(), n, ok)
		}
		if free := p.FreeNow(); free < 0 || free > r.Entries() || cons != 0 && free != 0 && -cons > uint32(r.Entries()) {
			t.Fatalf("consumer at %d in %d elements: %d free", cons, r.Entries(), free)
		}
		for i := range min(r.Entries(), 70) {
			if s := c.Slot(i); len(s) != r.ElemSize() || cap(s) != len(s) {
				t.Fatalf("slot of %d bytes", len(s))
			}
			p.Slot(i)[r.ElemSize()-1] = 1
		}
	})
}

func TestEmpty(t *testing.T) {
	r, err := New(4, 8)
	if err != nil {
		t.Fatal(err)
	}
	p, c := NewProducer(r), NewConsumer(r)
	for i := range 9 {
		if !r.Empty() {
			t.Fatalf("round %d: an empty ring is not Empty", i)
		}
		p.Publish(1)
		if r.Empty() {
			t.Fatalf("round %d: Empty with an element in it", i)
		}
		if n, ok := c.Avail(); n != 1 || !ok {
			t.Fatalf("round %d: %d available, %v", i, n, ok)
		}
		c.Release(1)
	}
}
