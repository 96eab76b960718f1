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
		if p.Ring() != r || p.Free() != 1+released {
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
