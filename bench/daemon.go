package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/daemon/serve"
	"github.com/roce-xdp/roce-xdp/internal/perf"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/internal/shm"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// daemonEnv makes this program a daemon for the interface of the namespace in which it
// is started; its value is the runtime directory.
const daemonEnv = "ROCE_XDP_BENCH_DAEMON"

// beDaemon serves until standard input ends, which it does with the parent.
func beDaemon(dir string) (err error) {
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1) // as roce-xdp run does, for a worker
	dev, err := datapath.Open(netns.Ifname, &datapath.Options{OwnThreads: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	l, err := shm.Listen(session.SocketPath(dir), 0o600)
	if err != nil {
		return err
	}
	s := serve.New(serve.Config{Name: "bench"})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	if err := s.AddDevice(dev); err != nil {
		return errors.Join(err, s.Shutdown(context.Background()))
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = s.Shutdown(ctx)
	if serr := <-served; !errors.Is(serr, serve.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}

// daemon is one that runs in a process of its own.
type daemon struct {
	cmd   *exec.Cmd
	stdin io.Closer
	dir   string
}

// startDaemon starts one at an end; apart, in a session of its own, which is a
// scheduling group of its own where the kernel groups by session.
func startDaemon(at *netns.End, apart bool) (d *daemon, err error) {
	d = &daemon{}
	if d.dir, err = os.MkdirTemp("", "roce-xdp-bench-"); err != nil {
		return nil, err
	}
	d.cmd = exec.Command("/proc/self/exe")
	d.cmd.Env = append(os.Environ(), daemonEnv+"="+d.dir)
	d.cmd.Stderr = os.Stderr
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: apart}
	stdout, err := d.cmd.StdoutPipe()
	if err == nil {
		d.stdin, err = d.cmd.StdinPipe()
	}
	if err == nil {
		err = at.NS.Do(d.cmd.Start)
	}
	if err == nil {
		if _, err = bufio.NewReader(stdout).ReadString('\n'); err != nil {
			err = fmt.Errorf("the daemon does not start: %w", err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// open opens its device.
func (d *daemon) open() (*verbs.Context, error) {
	if err := os.Setenv(session.DirVariable, d.dir); err != nil {
		return nil, err
	}
	return verbs.Open(netns.Ifname)
}

func (d *daemon) close() error {
	var err error
	if d.stdin != nil {
		err = d.stdin.Close()
	}
	if d.cmd.Process != nil {
		err = errors.Join(err, d.cmd.Wait())
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}

// throughDaemons measures WRITEs between programs at two daemons: three processes, as
// many threads that poll as there are ends and workers.
func (m *measures) throughDaemons(ctx context.Context, p *netns.Pair, secs float64) (err error) {
	r, daemons := &rdmaPair{spread: true}, []*daemon{}
	defer func() {
		err = errors.Join(err, r.close())
		for _, d := range daemons {
			err = errors.Join(err, d.close())
		}
	}()
	for _, end := range []struct {
		at  *netns.End
		dev **verbs.Context
	}{{p.A, &r.a}, {p.B, &r.b}} {
		d, err := startDaemon(end.at, m.apart)
		if err != nil {
			return err
		}
		daemons = append(daemons, d)
		if *end.dev, err = d.open(); err != nil {
			return err
		}
	}
	rtt, err := r.latency(ctx, perf.Write, small, latencyRounds)
	if err != nil {
		return err
	}
	m.addTimes("daemon_write_rtt_64", rtt)
	d := time.Duration(secs * float64(time.Second))
	bps, _, err := r.bandwidth(ctx, perf.Write, 64<<10, 64, d)
	if err != nil {
		return err
	}
	m.add("daemon_write_bw_64k", "Gbit/s", bps/1e9)
	_, rate, err := r.bandwidth(ctx, perf.Write, small, 256, d)
	if err != nil {
		return err
	}
	m.add("daemon_write_rate_64", "Mmsg/s", rate/1e6)
	return nil
}
