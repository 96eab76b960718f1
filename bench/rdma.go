package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/internal/perf"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// rdmaPair are the devices at the two ends of a veth pair, in this process: two
// threads at work, as in the raw baseline.
type rdmaPair struct {
	a, b *verbs.Context
	// spread keeps the threads of the two ends on CPUs of their own in latency, as the
	// kernel does with two threads that are alone.
	spread bool
}

func openRDMA(p *netns.Pair) (*rdmaPair, error) {
	r := &rdmaPair{}
	for _, end := range []struct {
		at  *netns.End
		dev **verbs.Context
	}{{p.A, &r.a}, {p.B, &r.b}} {
		err := end.at.NS.Do(func() (err error) {
			*end.dev, err = datapath.Open(end.at.Ifname, nil)
			return err
		})
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
	}
	return r, nil
}

func (r *rdmaPair) close() error {
	var errs []error
	for _, dev := range []*verbs.Context{r.a, r.b} {
		if dev != nil {
			errs = append(errs, dev.Close())
		}
	}
	return errors.Join(errs...)
}

// ends connects the two ends of one test.
func (r *rdmaPair) ends(ctx context.Context, params perf.Params) (a, b *perf.End, err error) {
	params, err = params.Complete()
	if err != nil {
		return nil, nil, err
	}
	mk := func(dev *verbs.Context) (*perf.End, error) {
		gid, err := connect.GID(dev, -1, netip.Addr{})
		if err != nil {
			return nil, err
		}
		return perf.NewEnd(dev, gid, connect.Path{MTU: connect.PathMTU(params.MTU)}, params)
	}
	if a, err = mk(r.a); err != nil {
		return nil, nil, err
	}
	if b, err = mk(r.b); err != nil {
		return nil, nil, errors.Join(err, a.Close())
	}
	if err = errors.Join(a.Connect(ctx, b.Endpoints()), b.Connect(ctx, a.Endpoints())); err != nil {
		return nil, nil, errors.Join(err, a.Close(), b.Close())
	}
	a.Prepare(params.Sizes[0])
	b.Prepare(params.Sizes[0])
	return a, b, nil
}

// latency returns n round trip times of size bytes.
func (r *rdmaPair) latency(ctx context.Context, op perf.Op, size, n int) ([]time.Duration, error) {
	a, b, err := r.ends(ctx, perf.Params{Test: perf.Test{Op: op, Latency: true}, Sizes: []int{size}, Iters: n, MTU: 4096, TxDepth: 16})
	if err != nil {
		return nil, err
	}
	defer func() { _ = a.Close(); _ = b.Close() }()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	var peer error
	wg.Go(func() {
		defer r.settle(1)()
		if _, peer = b.Latency(ctx, n, false, nil); peer != nil {
			cancel()
		}
	})
	var half []int64
	wg.Go(func() {
		defer r.settle(0)()
		if half, err = a.Latency(ctx, n, true, make([]int64, 0, n)); err != nil {
			cancel()
		}
	})
	wg.Wait()
	if err := errors.Join(err, peer); err != nil {
		return nil, fmt.Errorf("%s latency: %w", op, err)
	}
	out := make([]time.Duration, len(half))
	for i, h := range half {
		out[i] = 2 * time.Duration(h)
	}
	return out, nil
}

// settle has the calling goroutine keep a CPU, where that is called for and there are
// as many, until the function is called that it returns.
func (r *rdmaPair) settle(cpu int) (leave func()) {
	var allowed, one unix.CPUSet
	if !r.spread || unix.SchedGetaffinity(0, &allowed) != nil || !allowed.IsSet(0) || !allowed.IsSet(1) {
		return func() {}
	}
	one.Set(cpu)
	runtime.LockOSThread()
	_ = unix.SchedSetaffinity(0, &one) // it is allowed, as was seen
	return func() {
		_ = unix.SchedSetaffinity(0, &allowed)
		runtime.UnlockOSThread()
	}
}

// bandwidth sends messages of size bytes for about d and returns bits and
// messages per second.
func (r *rdmaPair) bandwidth(ctx context.Context, op perf.Op, size, depth int, d time.Duration) (bps, rate float64, err error) {
	p := perf.Params{
		Test: perf.Test{Op: op}, Sizes: []int{size}, Duration: d, MTU: 4096,
		TxDepth: depth, PostList: min(16, depth), CQMod: max(1, depth/4), RxDepth: 2 * depth,
	}
	a, b, err := r.ends(ctx, p)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = a.Close(); _ = b.Close() }()
	ctx, cancel := context.WithTimeout(ctx, d+time.Minute)
	defer cancel()
	serving, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	var peer error
	wg.Go(func() {
		if peer = b.Serve(serving); peer != nil {
			cancel()
		}
	})
	bw, err := a.Bandwidth(ctx)
	stop()
	wg.Wait()
	if err := errors.Join(err, peer); err != nil {
		return 0, 0, fmt.Errorf("%s bandwidth: %w", op, err)
	}
	return 8 * bw.Avg, bw.Rate, nil
}
