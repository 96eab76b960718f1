package pingpong

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// losable is a device that can be lost as one of a daemon is.
type losable struct {
	verbs.Provider
	lost atomic.Bool
}

func (l *losable) Lost() *atomic.Bool { return &l.lost }

// Who polls learns of the end of the daemon, too.
func TestDeviceIsLost(t *testing.T) {
	a, _ := datapathtest.Pair(t, datapathtest.Options{})
	l := &losable{Provider: a.Provider()}
	cq, err := verbs.NewContext(l).CreateCQ(1)
	if err != nil {
		t.Fatal(err)
	}
	s := &side{cq: cq}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.completions(ctx, make([]verbs.WC, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("of a device that is there: %v, want the end of the context", err)
	}
	l.lost.Store(true)
	if _, err := s.completions(t.Context(), make([]verbs.WC, 1)); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("of a lost device: %v, want ErrClosed", err)
	}
}
