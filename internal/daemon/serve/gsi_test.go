package serve

import (
	"context"
	"errors"
	"testing"
	"time"

	rdmacm "github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// dialNobody asks for a service that nobody offers. It is refused if a connection manager
// is there to say so.
func dialNobody(t *testing.T, dev *verbs.Context) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := rdmacm.Dial(ctx, dev, "192.0.2.2:7471", nil)
	if err == nil {
		t.Fatal("connected to nobody", c.Close())
	}
	return err
}

// TestNobodyListens: a daemon answers for programs of which none uses the connection
// manager, and for none at all.
func TestNobodyListens(t *testing.T) {
	w := newTwin(t, Config{})
	a := w.open(t, 0)
	if err := dialNobody(t, a); !errors.Is(err, rdmacm.ErrNoListener) {
		t.Errorf("without programs: %v, want %v", err, rdmacm.ErrNoListener)
	}
	b := w.open(t, 1)
	if _, err := b.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if err := dialNobody(t, a); !errors.Is(err, rdmacm.ErrNoListener) {
		t.Errorf("with a program: %v, want %v", err, rdmacm.ErrNoListener)
	}
	// A listener that was there and has gone changes nothing.
	l, err := rdmacm.Listen(b, "192.0.2.2:7471", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	if err := dialNobody(t, a); !errors.Is(err, rdmacm.ErrNoListener) {
		t.Errorf("after a listener: %v, want %v", err, rdmacm.ErrNoListener)
	}
}

// TestQueuePairOneIsLent: a privileged program has queue pair 1 when it wants it, and the
// connection manager when that has given it back or is gone.
func TestQueuePairOneIsLent(t *testing.T) {
	w := newTwin(t, Config{Policy: func(Cred) (Limits, error) { return Limits{Privileged: true}, nil }})
	a := w.open(t, 0)
	for _, end := range []struct {
		name string
		of   func(b *verbs.Context, p *verbstest.Pair) error
	}{
		{"destroyed", func(_ *verbs.Context, p *verbstest.Pair) error { return p.Close() }},
		{"program gone", func(b *verbs.Context, _ *verbstest.Pair) error { return b.Close() }},
	} {
		t.Run(end.name, func(t *testing.T) {
			b, from := w.open(t, 1), w.open(t, 0)
			p, err := verbstest.NewPair(verbs.GSI, from, b, verbstest.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Every(1, 256); err != nil {
				t.Error(err)
			}
			if _, err := rdmacm.Listen(b, "192.0.2.2:7471", nil); !errors.Is(err, verbs.ErrBusy) {
				t.Errorf("a connection manager besides: %v", err)
			}
			if err := errors.Join(end.of(b, p), from.Close()); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "the answer of the connection manager", func() bool {
				err := dialNobody(t, a)
				return errors.Is(err, rdmacm.ErrNoListener)
			})
		})
	}
}

// TestQueuePairOneInUse: who uses the connection manager keeps it, and a privileged program
// is told so, which takes nothing from anybody.
func TestQueuePairOneInUse(t *testing.T) {
	w := newTwin(t, Config{Policy: func(Cred) (Limits, error) { return Limits{Privileged: true}, nil }})
	a, b := w.open(t, 0), w.open(t, 1)
	l, err := rdmacm.Listen(b, "192.0.2.2:7472", nil)
	if err != nil {
		t.Fatal(err)
	}
	pd, err := b.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := b.CreateCQ(1)
	if err != nil {
		t.Fatal(err)
	}
	init := &verbs.QPInitAttr{Type: verbs.GSI, SendCQ: cq, RecvCQ: cq}
	if _, err := pd.CreateQP(init); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("queue pair 1 of a connection manager in use: %v", err)
	}
	if err := dialNobody(t, a); !errors.Is(err, rdmacm.ErrNoListener) {
		t.Errorf("afterwards: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := dialNobody(t, a); !errors.Is(err, rdmacm.ErrNoListener) {
		t.Errorf("without the listener: %v", err)
	}
}
