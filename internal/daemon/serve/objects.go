package serve

import "sync"

// named is how a client knows an object.
type named struct {
	kind   uint32 // proto.ObjectQP and so on
	handle uint64
}

// objects finds the handle of what an event is about.
type objects struct {
	mu sync.Mutex
	of map[any]named
}

func (o *objects) name(p any, kind uint32, h uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil {
		o.of = map[any]named{}
	}
	o.of[p] = named{kind, h}
}

// forget reports whether p had a name.
func (o *objects) forget(p any) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.of[p]
	delete(o.of, p)
	return ok
}

func (o *objects) find(p any) (named, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, ok := o.of[p]
	return n, ok
}

// numbers are the queue pair numbers that are a client's own, as many times as it
// has handles on them.
type numbers struct {
	mu sync.Mutex
	of map[uint32]int
}

func (n *numbers) add(qpn uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil {
		n.of = map[uint32]int{}
	}
	n.of[qpn]++
}

func (n *numbers) drop(qpn uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of[qpn]--; n.of[qpn] <= 0 {
		delete(n.of, qpn)
	}
}

func (n *numbers) own(qpn uint32) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.of[qpn] > 0
}
