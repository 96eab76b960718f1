package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// daemonRows are rows of ping and pingpong in which our program is an ordinary client of
// a daemon, over both families and in both roles.
func daemonRows() []row {
	var all []row
	for i, f := range families {
		for _, server := range []bool{false, true} {
			p := pings{family: f, server: server, mtu: mtus[i], size: 4096, rounds: 100}
			all = append(all, p.row())
			for _, x := range []exchange{
				{service: "rc", mtu: mtus[i], size: 65536, iters: 30, flags: []string{"-c", "-e"}},
				{service: "uc", mtu: mtus[1-i], size: 4096, iters: 100},
				{service: "ud", size: 1024, iters: 100},
				{service: "srq", mtu: mtus[i], size: 4096, iters: 200, flags: []string{"-q", "4", "-r", "32"}},
			} {
				x.family, x.server = f, server
				all = append(all, x.row())
			}
		}
	}
	for i := range all {
		all[i] = throughDaemon(all[i])
	}
	return all
}

// throughDaemon is a row with our program at a daemon.
func throughDaemon(r row) row {
	run := r.run
	r.name, r.group = "daemon/"+r.name, "daemon"
	r.run = func(ctx context.Context, b *bench) (err error) {
		stop, err := b.startDaemon(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		return run(ctx, b)
	}
	return r
}

// startDaemon has a daemon serve our interface until stop, and our program use it.
func (r *rig) startDaemon(ctx context.Context) (stop func() error, err error) {
	dir, err := os.MkdirTemp("", "roce-xdp-rxe-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	d, err := start(r.host(ctx, r.o.binary, "run", "--runtime-dir", filepath.Join(dir, "run"), "--user", "nobody", ourEnd))
	if err == nil {
		if err = os.Chmod(dir, 0o755); err == nil { // nobody goes through it
			err = d.says(ctx, "roce-xdp: ready")
		}
	}
	stop = func() error {
		r.through = ""
		cancel() // SIGTERM
		var err error
		if d != nil {
			if e := d.ended(context.Background(), 20*time.Second); errors.Is(e, errRunsOn) {
				err = fmt.Errorf("the daemon: %w", e)
			}
		}
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the daemon: %w", err), stop())
	}
	r.through = filepath.Join(dir, "run")
	return stop, nil
}

// ours is a command line of our program, which has its device from the daemon if there is
// one.
func (r *rig) ours(args ...string) []string {
	way := "--in-process"
	if r.through != "" {
		way = "--daemon"
	}
	return append(append([]string{r.o.binary}, args...), way)
}
