package demo

import (
	"context"
	"errors"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/perf"
)

const (
	// measured is how long each bandwidth is measured.
	measured      = 700 * time.Millisecond
	measuredQuick = 50 * time.Millisecond
	// rounds is how many messages a latency is measured with, in groups of group,
	// unless that takes longer than enough: on a busy machine it could.
	rounds      = 20000
	roundsQuick = 200
	group       = 1000
	enough      = 2 * time.Second
)

// ends are two connected sides of a test in this process.
type ends struct{ a, b *perf.End }

func (d *demo) newEnds(ctx context.Context, p perf.Params) (*ends, error) {
	p, err := p.Complete()
	if err != nil {
		return nil, err
	}
	e := &ends{}
	if e.a, err = perf.NewEnd(d.a.dev, d.a.gid, d.path(), p); err != nil {
		return nil, err
	}
	if e.b, err = perf.NewEnd(d.b.dev, d.b.gid, d.path(), p); err != nil {
		return nil, errors.Join(err, e.close())
	}
	if err := errors.Join(e.a.Connect(ctx, e.b.Endpoints()), e.b.Connect(ctx, e.a.Endpoints())); err != nil {
		return nil, errors.Join(err, e.close())
	}
	e.a.Prepare(p.Sizes[0])
	e.b.Prepare(p.Sizes[0])
	return e, nil
}

func (e *ends) close() error {
	var err error
	for _, end := range []*perf.End{e.a, e.b} {
		if end != nil {
			err = errors.Join(err, end.Close())
		}
	}
	return err
}

// latency measures 64-byte WRITEs, the ends sending in turns and polling memory,
// and the same over TCP.
func (d *demo) latency(ctx context.Context) error {
	const size = 64
	n := rounds
	if d.Quick {
		n = roundsQuick
	}
	e, err := d.newEnds(ctx, perf.Params{
		Test: perf.Test{Op: perf.Write, Latency: true}, Sizes: []int{size}, Iters: n, TxDepth: 64, Inline: size,
	})
	if err != nil {
		return err
	}
	samples := make([]int64, 0, n)
	for end := time.Now().Add(enough); err == nil && len(samples) < n && time.Now().Before(end); {
		samples, err = e.pingPong(ctx, min(n, group), samples)
	}
	if err := errors.Join(err, e.close()); err != nil {
		return err
	}
	d.report.Latency.Histogram = histogram(samples)
	d.report.Latency.Write = perf.Summarize(size, samples)
	tcp, err := d.tcpLatency(ctx, size, n)
	if err != nil {
		return err
	}
	d.report.Latency.TCP = perf.Summarize(size, tcp)
	return nil
}

// pingPong runs both sides of a latency test and appends n samples of the first
// to dst. A tenth of them more go before, unmeasured.
func (e *ends) pingPong(ctx context.Context, n int, dst []int64) ([]int64, error) {
	warm := n / 10
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	serving, finished := context.WithCancel(ctx)
	defer finished()
	answered := make(chan error, 1)
	go func() {
		_, err := e.b.Latency(ctx, warm+n, false, make([]int64, 0, warm+n))
		if err == nil {
			err = e.b.Serve(serving) // acknowledges the last messages
		}
		answered <- err
	}()
	samples, err := e.a.Latency(ctx, warm+n, true, make([]int64, 0, warm+n))
	finished()
	if err != nil {
		cancel()
		return dst, errors.Join(err, <-answered)
	}
	return append(dst, samples[warm:]...), <-answered
}

// bandwidth measures large messages of each operation, and TCP.
func (d *demo) bandwidth(ctx context.Context) error {
	duration := measured
	if d.Quick {
		duration = measuredQuick
	}
	for _, m := range []struct {
		name string
		op   perf.Op
		size int
	}{
		{"RDMA WRITE", perf.Write, 64 << 10},
		{"RDMA WRITE", perf.Write, 1 << 20},
		{"RDMA READ", perf.Read, 1 << 20},
		{"SEND", perf.Send, 1 << 20},
	} {
		e, err := d.newEnds(ctx, perf.Params{
			Test: perf.Test{Op: m.op}, Sizes: []int{m.size}, Duration: duration, TxDepth: 16, RxDepth: 64, CQMod: 1,
		})
		if err != nil {
			return err
		}
		bw, err := e.stream(ctx)
		if err := errors.Join(err, e.close()); err != nil {
			return err
		}
		d.report.Transfer = append(d.report.Transfer, Transfer{m.name, m.size, bw.Avg})
	}
	tcp, err := d.tcpBandwidth(ctx, 1<<20, duration)
	if err != nil {
		return err
	}
	d.report.Transfer = append(d.report.Transfer, Transfer{"TCP", 1 << 20, tcp})
	return nil
}

// stream runs a bandwidth test from a to b.
func (e *ends) stream(ctx context.Context) (perf.Bandwidth, error) {
	serving, finished := context.WithCancel(ctx)
	defer finished()
	served := make(chan error, 1)
	go func() { served <- e.b.Serve(serving) }()
	bw, err := e.a.Bandwidth(ctx)
	finished()
	return bw, errors.Join(err, <-served)
}
