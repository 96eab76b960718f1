package ping

import (
	"context"
	"io"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// patience is longer than anything here takes on a slow machine.
const patience = 60 * time.Second

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// output is text that may be read while it is written.
type output struct {
	mu sync.Mutex
	b  strings.Builder
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// on are default options of an end on a device. The end does not close it.
func on(dev *verbs.Context, out io.Writer) Options {
	o := Defaults()
	o.Interface = dev.Name()
	o.Open = func(string) (*verbs.Context, error) { return dev, nil }
	o.Out, o.Timeout = out, patience
	return o
}

// running is a server that runs in the background.
type running struct {
	out, log output
	end      context.CancelFunc
	err      chan error
}

// serve starts a server and waits until it listens.
func serve(t testing.TB, dev *verbs.Context, change func(*Options)) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	s := &running{end: cancel, err: make(chan error, 1)}
	o := on(dev, &s.out)
	o.Log = &s.log
	listening := make(chan struct{})
	o.Listening = func(netip.AddrPort) { close(listening) }
	if change != nil {
		change(&o)
	}
	go func() { s.err <- Server(ctx, o) }()
	select {
	case <-listening:
	case err := <-s.err:
		t.Fatalf("server: %v", err)
	}
	t.Cleanup(cancel)
	return s
}

// runClient runs a client against device B.
func runClient(t testing.TB, dev *verbs.Context, change func(*Options)) (*Result, string, error) {
	t.Helper()
	var out output
	o := on(dev, &out)
	o.Address, o.Count, o.Validate = datapathtest.IPv4[1].String(), 10, true
	if change != nil {
		change(&o)
	}
	res, err := Client(within(t), o)
	return res, out.String(), err
}

func devices(t testing.TB) (a, b *verbs.Context) {
	t.Helper()
	return datapathtest.Pair(t, datapathtest.Options{})
}
