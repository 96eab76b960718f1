package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// pingpongRows are runs of `roce-xdp pingpong rc` against ibv_rc_pingpong.
func pingpongRows() []row {
	var all []row
	add := func(f family, mtu, size, iters int, server bool, flags ...string) {
		role := "client"
		if server {
			role = "server"
		}
		name := fmt.Sprintf("pingpong/%s/%s/mtu%d/%dB", role, f.name, mtu, size)
		if len(flags) > 0 {
			name += "/" + strings.Join(flags, "")
		}
		args := append([]string{"-s", fmt.Sprint(size), "-m", fmt.Sprint(mtu), "-n", fmt.Sprint(iters)}, flags...)
		all = append(all, row{name: name, group: "pingpong", limit: 2 * time.Minute, run: func(ctx context.Context, b *bench) error {
			return pingpong(ctx, b, f, server, size*iters*2, args)
		}})
	}
	for i, f := range families {
		for _, server := range []bool{false, true} {
			for _, mtu := range mtus {
				add(f, mtu, 64, 200, server)
				add(f, mtu, 4096, 100, server)
				add(f, mtu, 65536, 30, server)
			}
			add(f, mtus[i], 4096, 50, server, "-c")
			add(f, mtus[i], 4096, 50, server, "-e")
			add(f, mtus[i], 65536, 20, server, "-c", "-e")
		}
	}
	return all
}

// attempts is how often a ping-pong row is run. The program's time-out is fixed:
// it gives up after 0.54 s without an answer, and an emulated CPU on a busy host
// stands still for longer at times. The other rows have time-outs of their own.
const attempts = 3

// pingpong runs both ends, again when ours got no answer from the guest.
func pingpong(ctx context.Context, b *bench, f family, server bool, total int, args []string) error {
	var err error
	for n := 1; n <= attempts; n++ {
		if err = pingpongOnce(ctx, b, f, server, total, args); err == nil || !errors.Is(err, errNoAnswer) || ctx.Err() != nil {
			return err
		}
		fmt.Fprintf(b.note, "# no answer from the guest, attempt %d of %d\n", n, attempts)
	}
	return err
}

var errNoAnswer = errors.New("no answer")

// pingpongOnce runs both ends and demands success and the same count of both.
// When one fails, the other is ended.
func pingpongOnce(ctx context.Context, b *bench, f family, server bool, total int, args []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	rxe := append([]string{"ibv_rc_pingpong", "-d", "rxe0", "-g", fmt.Sprint(f.gidIndex)}, args...)
	own := append([]string{b.o.binary, "pingpong", "rc", "-d", ourEnd, "-g", fmt.Sprint(f.ownIndex)}, args...)
	if server {
		rxe = append(rxe, f.ours.String())
	} else {
		// ibv_rc_pingpong listens on IPv4 only; the GIDs are of the family all the same.
		own = append(own, families[0].guest.String())
	}
	ends := [2]*exec.Cmd{b.guest(ctx, 40*time.Second, strings.Join(rxe, " ")), b.host(ctx, own...)}
	if server {
		ends[0], ends[1] = ends[1], ends[0]
	}
	var outs [2]bytes.Buffer
	done := make(chan error, len(ends))
	started, err := 0, error(nil)
	for i, cmd := range ends {
		cmd.Stdout, cmd.Stderr = &outs[i], &outs[i]
		if i == 1 {
			err = b.listening(ctx, server)
		}
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			break
		}
		started++
		go func() { done <- cmd.Wait() }()
	}
	if err != nil {
		cancel()
	}
	for range started {
		if e := <-done; e != nil && err == nil {
			err = e
			cancel()
		}
	}
	want := fmt.Sprintf("%d bytes in", total)
	for i := range outs {
		text := outs[i].String()
		if err == nil && (!strings.Contains(text, want) || strings.Contains(text, "invalid data")) {
			err = fmt.Errorf("no %q, or invalid data", want)
		}
		if err != nil && strings.Contains(text, verbs.WCRetryExceeded.String()) {
			err = fmt.Errorf("%w: %w", errNoAnswer, err)
		}
	}
	if err != nil {
		return fmt.Errorf("%w\nserver: %s\nclient: %s", err, &outs[0], &outs[1])
	}
	return nil
}

// listening waits until the server has its TCP port.
func (r *rig) listening(ctx context.Context, ours bool) error {
	const port = 18515
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		line := fmt.Sprintf("grep -qi ':%04X 0*:0000 0A' /proc/net/tcp /proc/net/tcp6", port)
		cmd := r.guest(ctx, 5*time.Second, line)
		if ours {
			cmd = r.host(ctx, "sh", "-c", line)
		}
		if cmd.Run() == nil {
			return nil
		}
	}
	return fmt.Errorf("nobody listens on TCP port %d", port)
}
