package queue

import (
	"encoding/binary"
	"testing"
)

// A producer that takes over goes on where the other one stopped, wherever the
// consumer is.
func TestResumeProducer(t *testing.T) {
	for _, released := range []int{0, 1, 3} {
		r, err := New(4, 8)
		if err != nil {
			t.Fatal(err)
		}
		first, cons := NewProducer(r), NewConsumer(r)
		put := func(p *Producer, v uint64) {
			binary.LittleEndian.PutUint64(p.Slot(0), v)
			p.Publish(1)
		}
		for v := range uint64(3) {
			put(first, v)
		}
		cons.Release(released)
		p := ResumeProducer(r)
		if &p.Ring().data[0] != &r.data[0] || p.Free() != 1+released {
			t.Fatalf("%d released: %d free, want %d", released, p.Free(), 1+released)
		}
		put(p, 3)
		n, ok := cons.Avail()
		if !ok || n != 4-released {
			t.Fatalf("%d available, %v", n, ok)
		}
		for i := range n {
			if got, want := binary.LittleEndian.Uint64(cons.Slot(i)), uint64(released+i); got != want {
				t.Errorf("element %d is %d, want %d", i, got, want)
			}
		}
	}
}

// What a producer sees of the elements that were not released.
func TestPending(t *testing.T) {
	r, err := New(4, 8)
	if err != nil {
		t.Fatal(err)
	}
	p, c := NewProducer(r), NewConsumer(r)
	for i := range 4 {
		p.Slot(i)[0] = byte(i)
	}
	if n, ok := p.Pending(); n != 0 || !ok {
		t.Errorf("%d, %v of an empty ring", n, ok)
	}
	p.Publish(4)
	c.Release(1)
	n, ok := p.Pending()
	if n != 3 || !ok {
		t.Fatalf("%d, %v; want 3", n, ok)
	}
	for i := range n {
		if got := p.PendingSlot(i)[0]; got != byte(1+i) {
			t.Errorf("element %d holds %d", i, got)
		}
	}
	c.Release(4) // one too many
	if n, ok := p.Pending(); n != 0 || ok {
		t.Errorf("%d, %v with an index that cannot be", n, ok)
	}
}
