package cmfsm

import (
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Everything about a connection, a service or a refusal stays in the VLAN where it began, and
// so do the queue pairs.
func TestVLAN(t *testing.T) {
	const vlan = 42
	for _, tt := range []struct {
		name       string
		ps, listen wire.PortSpace
		app        func(w *world) func(*host, Event)
		ends       EventType // at the active side
	}{
		{"connection", wire.PortSpaceTCP, wire.PortSpaceTCP, func(w *world) func(*host, Event) { return w.polite }, EventEstablished},
		{"service", wire.PortSpaceUDP, wire.PortSpaceUDP, func(w *world) func(*host, Event) { return w.serve }, EventEstablished},
		{"nobody listens", wire.PortSpaceTCP, wire.PortSpaceUDP, func(w *world) func(*host, Event) { return w.polite }, EventRejected},
		{"no such service", wire.PortSpaceUDP, wire.PortSpaceTCP, func(w *world) func(*host, Event) { return w.polite }, EventUnreachable},
		{"no", wire.PortSpaceTCP, wire.PortSpaceTCP, func(w *world) func(*host, Event) {
			return func(h *host, e Event) { w.check(h.Reject(e.ID, wire.RejConsumer, nil)) }
		}, EventRejected},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.a.app, w.b.app = w.polite, tt.app(w)
			from := map[string]int{}
			w.fate = func(_ int, m *MAD) []time.Duration {
				from[m.Local.String()]++
				if m.VLAN != vlan {
					t.Errorf("%v of %v in VLAN %d", m.Data.Attr(), m.Local, m.VLAN)
				}
				return []time.Duration{linkDelay}
			}
			w.listen(tt.listen, 0)
			id, p, route := w.create(w.a, tt.ps), activeParam, w.route()
			route.VLAN = vlan
			w.check(w.a.Connect(w.now, id, route, &p))
			w.run(time.Second)
			if _, ok := w.a.last(tt.ends); !ok {
				w.fatal("events %s, want %v", names(w.a.types()), tt.ends)
			}
			if tt.name == "connection" {
				e, _ := w.b.last(EventEstablished)
				for h, id := range map[*host]ID{w.a: id, w.b: e.ID} {
					attr, err := h.QPAttr(id, nil)
					w.check(err)
					if attr.VLAN != vlan {
						t.Errorf("the queue pair of %s is in VLAN %d", h.name, attr.VLAN)
					}
				}
				w.check(w.b.Disconnect(w.now, e.ID))
				w.run(time.Minute)
			}
			if len(from) != 2 {
				w.fatal("messages %v", from)
			}
		})
	}
}
