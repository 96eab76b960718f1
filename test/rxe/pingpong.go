package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// exchange is one run of `roce-xdp pingpong` against the C program of the same
// transport service.
type exchange struct {
	service     string // rc, uc, ud or srq
	family      family
	server      bool // we are the server
	mtu         int  // path MTU; 0 for ud, which takes the port's
	size, iters int
	flags       []string
}

func (x *exchange) row() row {
	role := "client"
	if x.server {
		role = "server"
	}
	if x.service != "rc" {
		role = x.service + "-" + role
	}
	name := fmt.Sprintf("pingpong/%s/%s/", role, x.family.name)
	if x.mtu != 0 {
		name += fmt.Sprintf("mtu%d/", x.mtu)
	}
	name += fmt.Sprintf("%dB", x.size)
	if len(x.flags) > 0 {
		name += "/" + strings.Join(x.flags, "")
	}
	return row{name: name, group: "pingpong", limit: 2 * time.Minute, run: x.run}
}

// args are the options of both ends.
func (x *exchange) args() []string {
	a := []string{"-s", fmt.Sprint(x.size), "-n", fmt.Sprint(x.iters)}
	if x.mtu != 0 {
		a = append(a, "-m", fmt.Sprint(x.mtu))
	}
	return append(a, x.flags...)
}

// pingpongRows are runs over all services, in both roles. The unreliable ones
// have messages of few packets: the C programs wait for ever for one that an
// emulated CPU was too slow for.
func pingpongRows() []row {
	var all []row
	for i, f := range families {
		for _, server := range []bool{false, true} {
			add := func(service string, mtu, size, iters int, flags ...string) {
				x := exchange{service: service, family: f, server: server, mtu: mtu, size: size, iters: iters, flags: flags}
				all = append(all, x.row())
			}
			for _, mtu := range mtus {
				add("rc", mtu, 64, 200)
				add("rc", mtu, 4096, 100)
				add("rc", mtu, 65536, 30)
			}
			add("rc", mtus[i], 4096, 50, "-c")
			add("rc", mtus[i], 4096, 50, "-e")
			add("rc", mtus[i], 65536, 20, "-c", "-e")

			add("uc", mtus[i], 64, 200)
			add("uc", mtus[1-i], 4096, 100)
			add("uc", mtus[i], 16384, 30)
			add("uc", mtus[1-i], 5000, 50, "-c", "-e")

			add("srq", mtus[i], 64, 200)
			add("srq", mtus[1-i], 4096, 200, "-q", "4", "-r", "32")
			add("srq", mtus[i], 16384, 30, "-q", "1")
			add("srq", mtus[1-i], 5000, 50, "-c", "-e", "-q", "3")

			add("ud", 0, 1, 100)
			add("ud", 0, 1024, 200)
			add("ud", 0, 4096, 100)
			add("ud", 0, 1023, 50, "-c", "-e")
		}
	}
	return all
}

// attempts is how often a row of a C program with fixed time-outs is run: it gives up
// after a second or two, and an emulated CPU on a busy host stands still for longer at
// times. The other rows have time-outs of their own.
const attempts = 3

// errNoAnswer: one end stood still.
var errNoAnswer = errors.New("no answer")

// run runs both ends, again when ours got no answer from the guest.
func (x *exchange) run(ctx context.Context, b *bench) error {
	return b.patiently(ctx, func() error { return x.once(ctx, b) })
}

// patiently runs a row, again when one end stood still, and says so.
func (b *bench) patiently(ctx context.Context, once func() error) error {
	var err error
	for n := 1; n <= attempts; n++ {
		if err = once(); err == nil || !errors.Is(err, errNoAnswer) || ctx.Err() != nil {
			return err
		}
		fmt.Fprintf(b.note, "# no answer from the guest, attempt %d of %d\n", n, attempts)
	}
	return err
}

// once runs both ends and demands success and the same count of both. When one
// fails, the other is ended.
func (x *exchange) once(ctx context.Context, b *bench) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := x.family
	rxe := append([]string{"ibv_" + x.service + "_pingpong", "-d", "rxe0", "-g", fmt.Sprint(f.gidIndex)}, x.args()...)
	own := append(b.ours("pingpong", x.service, "-d", ourEnd, "-g", fmt.Sprint(f.ownIndex)), x.args()...)
	if x.server {
		rxe = append(rxe, f.ours.String())
	} else {
		// The C programs listen on IPv4 only; the GIDs are of the family all the same.
		own = append(own, families[0].guest.String())
	}
	e := ends{b.guest(ctx, 40*time.Second, strings.Join(rxe, " ")), b.host(ctx, own...)}
	if x.server {
		e.server, e.client = e.client, e.server
	}
	out, err := e.run(cancel, func(*program) error { return b.listening(ctx, x.server) })
	want := fmt.Sprintf("%d bytes in", x.size*x.iters*2)
	for _, text := range []string{out.server, out.client} {
		if err == nil && (!strings.Contains(text, want) || strings.Contains(text, "invalid data")) {
			err = fmt.Errorf("no %q, or invalid data", want)
		}
		if err != nil && strings.Contains(text, verbs.WCRetryExceeded.String()) {
			err = fmt.Errorf("%w: %w", errNoAnswer, err)
		}
	}
	if err != nil {
		return out.explain(err)
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
