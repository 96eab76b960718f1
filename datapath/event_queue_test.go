package datapath

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// TestEventQueueModel: events are read in order, of each object one of a type, and none
// of an object that is gone.
func TestEventQueueModel(t *testing.T) {
	types := []ibv.EventType{ibv.EventQPFatal, ibv.EventCommEst, ibv.EventSQDrained, ibv.EventPortErr}
	rapid.Check(t, func(rt *rapid.T) {
		q := newEventQueue()
		objects := []*qp{nil, {}, {}, {}} // nil: the port
		var model []verbs.ProviderEvent
		ports, lost := 0, uint64(0)
		for range rapid.IntRange(1, 100).Draw(rt, "steps") {
			object := rapid.SampledFrom(objects).Draw(rt, "object")
			e := verbs.ProviderEvent{Type: rapid.SampledFrom(types).Draw(rt, "type"), Port: 1}
			if object != nil {
				e.QP = object
			}
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0:
				if object == nil {
					continue
				}
				q.forget(object)
				model = slices.DeleteFunc(model, func(o verbs.ProviderEvent) bool { return o.QP == e.QP })
			case 1:
				got, ok := q.take()
				if ok != (len(model) != 0) || ok && got != model[0] {
					rt.Fatalf("%v, %v, want the first of %v", got, ok, model)
				}
				if ok {
					model = model[1:]
					if got.QP == nil {
						ports--
					}
				}
			default:
				q.put(e)
				switch {
				case object == nil && ports == maxEvents:
					lost++
				case object == nil:
					ports++
					model = append(model, e)
				case !slices.Contains(model, e):
					model = append(model, e)
				}
			}
		}
		for _, want := range model {
			if got, ok := q.take(); !ok || got != want {
				rt.Fatalf("%v, %v, want %v", got, ok, want)
			}
		}
		if e, ok := q.take(); ok || len(q.waiting) != 0 || q.first != nil || q.last != nil || q.ports != 0 || q.lostCount() != lost {
			rt.Fatalf("%v is left, of %d objects, %d of ports; %d were lost, want %d", e, len(q.waiting), q.ports, q.lost, lost)
		}
	})
}
