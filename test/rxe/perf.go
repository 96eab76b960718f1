package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// bout is one figure that both stacks are measured for: a test of `roce-xdp perf`
// and the program of perftest with the same options and the same table.
type bout struct {
	ours, theirs string
	size, iters  int
	column       int // of the table: where the figure is
	unit         string
}

// Columns of perftest's tables.
const (
	averageBandwidth = 3
	typicalLatency   = 4
)

var bouts = []bout{
	{"write-bw", "ib_write_bw", 65536, 400, averageBandwidth, "MB/s"},
	{"send-bw", "ib_send_bw", 65536, 400, averageBandwidth, "MB/s"},
	{"read-bw", "ib_read_bw", 65536, 400, averageBandwidth, "MB/s"},
	{"write-lat", "ib_write_lat", 64, 1000, typicalLatency, "us"},
}

// perfTime bounds one measurement. An emulated guest on a busy host may miss
// several time-outs of the queue pair, here one of a second: that is tried again.
//
// The emulated CPU is told to lack carry-less multiplication, by which Go computes
// CRC-32: emulated it takes three times as long as a table, by which rdma_rxe's
// module in the guest computes it anyway.
const (
	perfCPU      = "max,pclmulqdq=off"
	perfTime     = 3 * time.Minute
	perfAttempts = 3
	perfMTU      = 4096
	perfTimeout  = 18
)

// lines are the command lines of both stacks, without the server's address.
func (b *bout) lines() [2]string {
	common := fmt.Sprintf("-F -s %d -n %d -m %d -u %d", b.size, b.iters, perfMTU, perfTimeout)
	return [2]string{
		fmt.Sprintf("/root/roce-xdp perf %s -d eth0 %s", b.ours, common),
		fmt.Sprintf("%s -d rxe0 -x %d %s", b.theirs, families[0].gidIndex, common),
	}
}

// figure finds the figure in the table that the client has printed.
func (b *bout) figure(out string) (float64, error) {
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) > b.column && f[0] == strconv.Itoa(b.size) {
			v, err := strconv.ParseFloat(f[b.column], 64)
			if err != nil || v <= 0 {
				return 0, fmt.Errorf("no figure in column %d of %q", b.column+1, line)
			}
			return v, nil
		}
	}
	return 0, fmt.Errorf("no row for %d bytes in %q", b.size, out)
}

// comparePerf measures both stacks between two guests, in turns, and prints how
// they compare.
func comparePerf(ctx context.Context, o *options, out io.Writer) (err error) {
	if o.rounds < 1 {
		return fmt.Errorf("-rounds is %d: at least one is needed", o.rounds)
	}
	r := &rig{o: o, log: io.Discard}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.start(ctx, 2, "--cpu", perfCPU); err != nil {
		return err
	}
	for _, vm := range r.vms {
		if err := r.share(ctx, vm, o.binary); err != nil {
			return err
		}
		// Programs do not run from a file system of the host's as from memory.
		if out, err := r.guestAt(ctx, vm, perfTime, "cp /share/roce-xdp /root/roce-xdp").CombinedOutput(); err != nil {
			return fmt.Errorf("copy roce-xdp into the guest: %w: %s", err, out)
		}
	}
	values := make([][2][]float64, len(bouts))
	for round := range o.rounds {
		for i := range bouts {
			b := &bouts[i]
			lines := b.lines()
			for k := range lines {
				// Neither is always the first.
				k = (k + round) % len(lines)
				v, err := r.measure(ctx, out, b, lines[k])
				if err != nil {
					return fmt.Errorf("round %d: %s: %w", round+1, lines[k], err)
				}
				values[i][k] = append(values[i][k], v)
			}
			n := len(values[i][0]) - 1
			fmt.Fprintf(out, "# round %d: %-9s ours %.4g, rxe %.4g %s\n", round+1, b.ours, values[i][0][n], values[i][1][n], b.unit)
		}
	}
	printPerf(out, values)
	return nil
}

// measure runs a test between the guests, again when it failed.
func (r *rig) measure(ctx context.Context, note io.Writer, b *bout, line string) (v float64, err error) {
	for n := 1; n <= perfAttempts && ctx.Err() == nil; n++ {
		var text string
		if text, err = r.duel(ctx, line); err == nil {
			if v, err = b.figure(text); err == nil {
				return v, nil
			}
		}
		fmt.Fprintf(note, "# attempt %d of %d failed: %v\n", n, perfAttempts, err)
	}
	return 0, errors.Join(err, context.Cause(ctx))
}

// duel runs a command line as the server in the first guest and as its client in
// the second, and returns what the client printed.
func (r *rig) duel(ctx context.Context, line string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, perfTime)
	defer cancel()
	e := ends{
		server: r.guestAt(ctx, r.vms[0], perfTime, line),
		client: r.guestAt(ctx, r.vms[1], perfTime, line+" "+families[0].guest.String()),
	}
	out, err := e.run(cancel, func(*program) error { return r.listening(ctx, false) })
	if err != nil {
		return "", out.explain(err)
	}
	return out.client, nil
}
