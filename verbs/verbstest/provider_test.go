package verbstest_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/internal/daemon/daemontest"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// provider is a way to a device. What package verbs promises holds for all.
type provider struct {
	name   string
	remote bool // regions of memory that is not of AllocBuffer are indirect
	pair   func(testing.TB, datapathtest.Options) (a, b *verbs.Context)
}

// daemonsEnv has the runtime directories of two hosts' daemons, with a colon between. The
// tests then are about their devices alone: package test/integration runs them so.
const daemonsEnv = "ROCE_XDP_VERBSTEST_DAEMONS"

func providers() []provider {
	if dirs := os.Getenv(daemonsEnv); dirs != "" {
		return []provider{{"through the daemons of two hosts", true, func(t testing.TB, _ datapathtest.Options) (a, b *verbs.Context) {
			dirA, dirB, _ := strings.Cut(dirs, ":")
			return openAt(t, dirA), openAt(t, dirB)
		}}}
	}
	return []provider{{"in the process", false, datapathtest.Pair}, {"through a daemon", true, daemontest.Pair}}
}

// openAt opens the only device of a daemon. It ends with the test.
func openAt(t testing.TB, dir string) *verbs.Context {
	t.Helper()
	t.Setenv(session.DirVariable, dir)
	dev, err := verbs.Open("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return dev
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
	for _, p := range providers() {
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
