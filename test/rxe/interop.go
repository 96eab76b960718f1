package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// interop runs the rows that match and returns how many failed. An error means
// that the rows could not be run at all.
func interop(ctx context.Context, o *options, out io.Writer) (failed int, err error) {
	all := rows()
	if o.smoke {
		all = smokeRows(all)
	}
	var chosen []row
	for _, r := range all {
		if o.run.MatchString(r.name) {
			chosen = append(chosen, r)
		}
	}
	if len(chosen) == 0 {
		return 0, errors.New("no row matches -run: see -list")
	}
	if o.list {
		for _, r := range chosen {
			fmt.Fprintln(out, r.name)
		}
		return 0, nil
	}
	r := &rig{o: o, log: io.Discard}
	if o.verbose {
		r.log = os.Stderr
	}
	b := &bench{rig: r, dev: &device{}, bad: &badLink{}, cm: &cmServer{}, note: out}
	defer func() { err = errors.Join(err, b.dev.close(), b.bad.close(), b.cm.close(), r.close()) }()
	begin := time.Now()
	if err := r.start(ctx, 1); err != nil {
		return 0, err
	}
	for _, file := range []string{"ops.py", "cm.py", "rdmacm.py"} {
		if err := r.share(ctx, r.vms[0], filepath.Join(o.scripts, file)); err != nil {
			return 0, err
		}
	}
	kernel, err := r.guest(ctx, 20*time.Second, "uname -r").Output()
	if err != nil {
		return 0, fmt.Errorf("the guest's kernel: %w", err)
	}
	rep := &report{out: out, kernel: strings.TrimSpace(string(kernel))}
	fmt.Fprintf(out, "# guest with Linux %s after %.1f s\n", rep.kernel, time.Since(begin).Seconds())
	return runRows(ctx, b, chosen, rep)
}

// runRows runs the rows, and judges the capture of each group at its end.
func runRows(ctx context.Context, b *bench, chosen []row, rep *report) (failed int, err error) {
	for len(chosen) > 0 {
		group := chosen[0].group
		c, err := b.capture(ctx, group)
		if err != nil {
			return rep.failed, err
		}
		for len(chosen) > 0 && chosen[0].group == group {
			r := chosen[0]
			chosen = chosen[1:]
			if ctx.Err() != nil {
				c.remove()
				return rep.failed, context.Cause(ctx)
			}
			rowCtx, cancel := context.WithTimeoutCause(ctx, r.limit, fmt.Errorf("not done after %v", r.limit))
			start := time.Now()
			err := r.run(rowCtx, b)
			if err != nil && rowCtx.Err() != nil {
				err = fmt.Errorf("%w: %w", context.Cause(rowCtx), err)
			}
			cancel()
			rep.row(r.name, time.Since(start), err)
		}
		start := time.Now()
		err = c.judge(ctx)
		rep.row("capture/"+group, time.Since(start), err)
	}
	return rep.failed, rep.finish(b.o.table)
}
