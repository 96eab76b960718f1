package ring

import (
	"errors"
	"testing"
	"unsafe"
)

// words8 returns n zero bytes aligned to 8, as a mapping is.
func words8(n int) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), n)
}

var kernelLayout = Layout{Producer: 0, Consumer: 64, Flags: 68, Entries: 128}

// Both sides over one mapping: what one puts at the layout's offsets the other
// finds there.
func TestMap(t *testing.T) {
	const size = 8
	mem := words8(Length[uint64](kernelLayout, size))
	if len(mem) != 128+8*size {
		t.Fatalf("a ring of %d takes %d bytes", size, len(mem))
	}
	p, err := MapProducer[uint64](mem, kernelLayout, size)
	if err != nil {
		t.Fatal(err)
	}
	c, err := MapConsumer[uint64](mem, kernelLayout, size)
	if err != nil {
		t.Fatal(err)
	}
	if n := p.Put([]uint64{0x11, 0x22}); n != 2 {
		t.Fatalf("put %d", n)
	}
	if mem[0] != 2 || mem[128] != 0x11 || mem[136] != 0x22 {
		t.Errorf("producer index %d, entries % x", mem[0], mem[128:144])
	}
	dst := make([]uint64, 4)
	if n := c.Take(dst); n != 2 || dst[1] != 0x22 || mem[64] != 2 {
		t.Errorf("took %v, consumer index %d", dst[:n], mem[64])
	}
	c.SetNeedWakeup(true)
	if mem[68] != 1 || !p.NeedWakeup() {
		t.Errorf("flags %d", mem[68])
	}
}

func TestMapErrors(t *testing.T) {
	good := Length[uint64](kernelLayout, 8)
	for _, tc := range []struct {
		name   string
		bytes  int
		size   int
		change func(*Layout)
	}{
		{"size", good, 7, func(*Layout) {}},
		{"a byte short", good - 1, 8, func(*Layout) {}},
		{"empty", 0, 8, func(*Layout) {}},
		{"entries beyond the end", good, 8, func(l *Layout) { l.Entries = 1 << 40 }},
		{"entries not aligned", good + 8, 8, func(l *Layout) { l.Entries = 129 }},
		{"producer beyond the end", good, 8, func(l *Layout) { l.Producer = uint64(good) - 2 }},
		{"consumer not aligned", good, 8, func(l *Layout) { l.Consumer = 65 }},
		{"flags beyond the end", good, 8, func(l *Layout) { l.Flags = 1 << 50 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := kernelLayout
			tc.change(&l)
			if _, err := MapProducer[uint64](words8(tc.bytes), l, tc.size); !errors.Is(err, ErrSize) {
				t.Errorf("producer: %v, want ErrSize", err)
			}
			if _, err := MapConsumer[uint64](words8(tc.bytes), l, tc.size); !errors.Is(err, ErrSize) {
				t.Errorf("consumer: %v, want ErrSize", err)
			}
		})
	}
}
