package verbstest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/internal/daemon/daemontest"
	"github.com/roce-xdp/roce-xdp/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// providers are the ways to a device. What package verbs promises holds for all.
var providers = []struct {
	name   string
	remote bool // regions of memory that is not of AllocBuffer are indirect
	pair   func(testing.TB, datapathtest.Options) (a, b *verbs.Context)
}{
	{"in the process", false, datapathtest.Pair},
	{"through a daemon", true, daemontest.Pair},
}

// world is two devices of a provider, joined in memory.
type world struct {
	*testing.T
	a, b   *verbs.Context
	remote bool
}

// everywhere runs a test with every provider.
func everywhere(t *testing.T, f func(w *world)) {
	t.Helper()
	for _, p := range providers {
		t.Run(p.name, func(t *testing.T) {
			a, b := p.pair(t, datapathtest.Options{})
			f(&world{T: t, a: a, b: b, remote: p.remote})
		})
	}
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// is checks that an error is want.
func (w *world) is(what string, err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Errorf("%s: %v, want %v", what, err, want)
	}
}

// soon is a context that ends when something is wrong.
func (w *world) soon() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	w.Cleanup(cancel)
	return ctx
}

func get[T any](w *world) func(v T, err error) T {
	return func(v T, err error) T {
		w.Helper()
		if err != nil {
			w.Fatal(err)
		}
		return v
	}
}
