package queue

import "testing"

// BenchmarkPostAndTake is one send work request with one entry through a ring.
func BenchmarkPostAndTake(b *testing.B) {
	r, _ := newRing(b, 256, SendElemSize(1, 0))
	p, c := NewProducer(r), NewConsumer(r)
	w, out := SendWQE{WRID: 1, NumSGE: 1, Length: 64}, SendWQE{}
	for b.Loop() {
		if p.Free() == 0 {
			b.Fatal("full")
		}
		slot := p.Slot(0)
		PutSend(slot, &w)
		PutSendSGE(slot, 0, SGE{Addr: 1, Length: 64, LKey: 2})
		p.Publish(1)
		if n, ok := c.Avail(); n != 1 || !ok {
			b.Fatal("nothing there")
		}
		GetSend(c.Slot(0), &out)
		c.Release(1)
	}
}

// BenchmarkComplete is one completion through a ring.
func BenchmarkComplete(b *testing.B) {
	r, _ := newRing(b, 256, CQESize)
	p, c := NewProducer(r), NewConsumer(r)
	in, out := CQE{WRID: 1}, CQE{}
	for b.Loop() {
		PutCQE(p.Slot(0), &in)
		p.Publish(1)
		c.Avail()
		GetCQE(c.Slot(0), &out)
		c.Release(1)
	}
}
