package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

func TestStatusOf(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want proto.Status
	}{
		{"none", nil, proto.StatusOK},
		{"unknown", errors.New("the moon"), proto.StatusOther},
		{"no answer in the time that was given", fmt.Errorf("%w: %w", verbs.ErrNoNeighbour, context.DeadlineExceeded), proto.StatusNoNeighbour},
		{"the time alone", context.DeadlineExceeded, proto.StatusDeadline},
		{"cancelled while it asked for a neighbour", fmt.Errorf("%w: %w", verbs.ErrNoNeighbour, context.Canceled), proto.StatusCancelled},
		{"a bound region", fmt.Errorf("%w: %w", verbs.ErrBusy, memory.ErrBound), proto.StatusBusy},
		{"rights of memory", memory.ErrAccess, proto.StatusInvalid},
		{"a client's limit", limit("queue pairs", 3), proto.StatusLimit},
		{"the device's limit", datapath.ErrLimit, proto.StatusLimit},
		{"shared memory's limit", shm.ErrLimit, proto.StatusLimit},
	} {
		if got := statusOf(tt.err); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Every status of the protocol stands for an error, but for the two that need none.
func TestEveryStatusIsUsed(t *testing.T) {
	used := map[proto.Status]bool{proto.StatusOK: true, proto.StatusOther: true}
	for _, s := range statuses {
		used[s.status] = true
	}
	for s := range proto.Status(100) {
		if known := !strings.HasPrefix(s.String(), "STATUS_"); known && !used[s] {
			t.Errorf("nothing is %v", s)
		}
	}
}
