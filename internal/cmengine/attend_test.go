package cmengine_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/internal/cmengine"
	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

func attend(t *testing.T, dev *verbs.Context) *cmengine.Attendance {
	t.Helper()
	a, err := cmengine.Attend(dev)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// taken reports whether somebody has queue pair 1 of the first device.
func taken(t *testing.T, a, b *verbs.Context) bool {
	t.Helper()
	p, err := verbstest.NewPair(verbs.GSI, a, b, verbstest.Options{})
	if err == nil {
		err = p.Close()
		if err != nil {
			t.Fatal(err)
		}
		return false
	}
	if !errors.Is(err, verbs.ErrBusy) {
		t.Fatal(err)
	}
	return true
}

// TestAttendance: queue pair 1 is taken without a client, and free at once when the last
// who attends has left and no client is there.
func TestAttendance(t *testing.T) {
	a, b := datapathtest.Pair(t, datapathtest.Options{})
	for range 20 {
		one, two := attend(t, a), attend(t, a)
		if !taken(t, a, b) {
			t.Fatal("queue pair 1 is free while two attend")
		}
		one.Leave()
		if !taken(t, a, b) {
			t.Fatal("queue pair 1 is free while one attends")
		}
		two.Leave()
		if taken(t, a, b) {
			t.Fatal("queue pair 1 is taken by nobody")
		}
	}
	last := attend(t, a)
	c := open(t, a)
	last.Leave()
	if _, err := c.Counters(); err != nil || !taken(t, a, b) {
		t.Errorf("a client without attendance: %v", err)
	}
	end := attend(t, a)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	end.Leave()
	if _, err := cmengine.Attend(a); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("on a closed device: %v", err)
	}
}

// TestAttendanceAndClients: whoever comes while the last one leaves has a connection
// manager, the old one or the next.
func TestAttendanceAndClients(t *testing.T) {
	a, _ := datapathtest.Pair(t, datapathtest.Options{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				at, err := cmengine.Attend(a)
				if err != nil {
					t.Error(err)
					return
				}
				at.Leave()
			}
		})
		all.Go(func() {
			for range 50 {
				c, err := cmengine.Of(a).Open(func(e cmfsm.Event) { t.Errorf("event %v", e.Type) })
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := c.Counters(); err != nil {
					t.Error(err)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
