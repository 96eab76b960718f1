package serve

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/proto"
)

// Every request of the protocol has a handler, which takes a body of its size and as
// many descriptors as the protocol says, and there are no others.
func TestHandlersAreComplete(t *testing.T) {
	for _, m := range proto.Messages {
		h, ok := handlers[m.Op]
		if !ok {
			t.Errorf("%s has no handler", m.Name)
			continue
		}
		n := sizeOf(m.Request)
		if _, err := h.parse(make([]byte, n)); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		if _, err := h.parse(make([]byte, n+1)); err == nil {
			t.Errorf("%s takes a byte too many", m.Name)
		}
		if n > 0 {
			if _, err := h.parse(make([]byte, n-1)); err == nil {
				t.Errorf("%s takes a byte too few", m.Name)
			}
		}
		if (h.fds != 0) != (m.FDsIn != "") {
			t.Errorf("%s takes %d descriptors, the protocol says %q", m.Name, h.fds, m.FDsIn)
		}
	}
	if len(handlers) != len(proto.Messages) {
		t.Errorf("%d handlers for %d requests", len(handlers), len(proto.Messages))
	}
}
