package cm

import (
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/cmengine"
	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// devices are those that this process has ids on. Its lock comes before a
// device's, and is not taken by sinks.
var devices = struct {
	mu sync.Mutex
	of map[*verbs.Context]*device
}{of: map[*verbs.Context]*device{}}

// device is what all ids on a device share: a client of its connection manager,
// whose events it hands to whom they concern. It lives as long as somebody
// refers to it.
type device struct {
	dev    *verbs.Context
	client cmengine.Client

	mu       sync.Mutex
	refs     int
	dead     bool // nobody may refer to it any more
	handlers map[cmfsm.ID]handler
	work     []func()
	working  bool
}

// handler is told of the events of an id. It must not block, and not call the
// client: a lock of the connection manager is held.
type handler interface{ event(cmfsm.Event) }

// acquire refers to a device.
func acquire(dev *verbs.Context) (*device, error) {
	if dev == nil {
		return nil, invalid("no device")
	}
	devices.mu.Lock()
	defer devices.mu.Unlock()
	if d := devices.of[dev]; d != nil && d.refer() {
		return d, nil
	}
	d := &device{dev: dev, refs: 1, handlers: map[cmfsm.ID]handler{}}
	var err error
	if d.client, err = cmengine.Of(dev).Open(d.sink); err != nil {
		return nil, err
	}
	devices.of[dev] = d
	return d, nil
}

// refer adds a reference, unless the device is gone.
func (d *device) refer() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return false
	}
	d.refs++
	return true
}

// release gives a reference back.
func (d *device) release() {
	devices.mu.Lock()
	d.mu.Lock()
	d.refs--
	last := d.refs == 0
	if last {
		d.dead = true
		if devices.of[d.dev] == d {
			delete(devices.of, d.dev)
		}
	}
	d.mu.Unlock()
	devices.mu.Unlock()
	if last {
		_ = d.client.Close() // it has no error but that it is closed
	}
}

// handle has h told of the events of an id; nil ends that.
func (d *device) handle(id cmfsm.ID, h handler) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h == nil {
		delete(d.handlers, id)
		return
	}
	d.handlers[id] = h
	if d.dead {
		h.event(cmfsm.Event{Type: cmfsm.EventDeviceRemoval, ID: id})
	}
}

// sink hands an event on: that of an id to its handler, a request to that of the
// listener, one of the device to all.
func (d *device) sink(ev cmfsm.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case ev.ID == 0:
		d.dead = d.dead || ev.Type == cmfsm.EventDeviceRemoval
		for id, h := range d.handlers {
			ev.ID = id
			h.event(ev)
		}
	case ev.Type == cmfsm.EventConnectRequest:
		l, ok := d.handlers[ev.Listener].(listening)
		if !ok { // it was closed this moment
			d.laterLocked(func() { _ = d.client.Destroy(ev.ID) })
			return
		}
		d.refs++
		d.handlers[ev.ID] = l.request(ev)
	default:
		if h := d.handlers[ev.ID]; h != nil {
			h.event(ev)
		}
	}
}

// listening makes something of a request that will handle its events, and has a
// reference to the device.
type listening interface{ request(cmfsm.Event) handler }

// laterLocked runs f, which may call the client, soon and in order.
func (d *device) laterLocked(f func()) {
	d.work = append(d.work, f)
	if !d.working {
		d.working = true
		go d.run()
	}
}

// run does what there is to do, and ends.
func (d *device) run() {
	for {
		d.mu.Lock()
		if len(d.work) == 0 {
			d.working = false
			d.mu.Unlock()
			return
		}
		todo := d.work
		d.work = nil
		d.mu.Unlock()
		for _, f := range todo {
			f()
		}
	}
}
