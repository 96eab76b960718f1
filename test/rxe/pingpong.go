package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"
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
		all = append(all, row{name: name, group: "pingpong", limit: time.Minute, run: func(ctx context.Context, b *bench) error {
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

// pingpong runs both ends and demands success and the same count of both.
func pingpong(ctx context.Context, b *bench, f family, server bool, total int, args []string) error {
	rxe := append([]string{"ibv_rc_pingpong", "-d", "rxe0", "-g", fmt.Sprint(f.gidIndex)}, args...)
	own := append([]string{b.o.binary, "pingpong", "rc", "-d", ourEnd, "-g", fmt.Sprint(f.ownIndex)}, args...)
	if server {
		rxe = append(rxe, f.ours.String())
	} else {
		// ibv_rc_pingpong listens on IPv4 only; the GIDs are of the family all the same.
		own = append(own, families[0].guest.String())
	}
	guest := b.guest(ctx, 40*time.Second, strings.Join(rxe, " "))
	host := b.host(ctx, own...)
	outs := [2]*bytes.Buffer{{}, {}}
	first, second := guest, host
	if server {
		first, second = host, guest
	}
	host.Stdout, guest.Stdout = outs[0], outs[1]
	host.Stderr, guest.Stderr = outs[0], outs[1]
	fail := func(what string, err error) error {
		return fmt.Errorf("%s: %w\nours: %s\nrxe: %s", what, err, outs[0], outs[1])
	}
	if err := first.Start(); err != nil {
		return err
	}
	err := b.listening(ctx, server)
	if err == nil {
		err = second.Run()
	}
	if err != nil {
		_ = first.Cancel()
		_ = first.Wait()
		return fail("the client", err)
	}
	if err := first.Wait(); err != nil {
		return fail("the server", err)
	}
	want := fmt.Sprintf("%d bytes in", total)
	for _, o := range outs {
		if !strings.Contains(o.String(), want) || strings.Contains(o.String(), "invalid data") {
			return fail("output", fmt.Errorf("no %q, or invalid data", want))
		}
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
