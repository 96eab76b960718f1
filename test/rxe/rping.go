package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// pings is a run of `roce-xdp ping` against the rping program of librdmacm.
type pings struct {
	family       family
	server       bool // we are the server
	mtu          int  // path MTU
	size, rounds int
}

func (p *pings) row() row {
	role := "client"
	if p.server {
		role = "server"
	}
	return row{
		name:  fmt.Sprintf("rping/%s/%s/mtu%d/%dB", role, p.family.name, p.mtu, p.size),
		group: "rping", limit: 5 * time.Minute, run: p.run,
	}
}

// rpingRows are runs in both roles with sizes up to rping's largest, and those that
// one end's program does not live to see the end of.
func rpingRows() []row {
	var all []row
	for i, f := range families {
		for _, server := range []bool{false, true} {
			add := func(mtu, size, rounds int) {
				p := pings{family: f, server: server, mtu: mtu, size: size, rounds: rounds}
				all = append(all, p.row())
			}
			add(mtus[i], 64, 1000)
			for _, mtu := range mtus {
				add(mtu, 4096, 100)
				add(mtu, 65535, 30)
			}
		}
	}
	return append(all, killRows()...)
}

// rpingPort is where rping listens without -p.
const rpingPort = 7174

func (p *pings) run(ctx context.Context, b *bench) error {
	return b.patiently(ctx, func() error { return p.once(ctx, b) })
}

// resolving is what rping prints when it has found no way to our address within its two
// seconds, which an emulated CPU on a busy host may take.
const resolving = "RDMA_CM_EVENT_ADDR_ERROR"

func (p *pings) once(ctx context.Context, b *bench) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := b.pathMTU(ctx, p.mtu); err != nil {
		return err
	}
	defer func() { _ = b.pathMTU(context.WithoutCancel(ctx), 4096) }() // the next row fails otherwise
	e := p.ends(ctx, b)
	out, err := e.run(cancel, func(s *program) error { return b.accepts(ctx, s, p.server) })
	if err == nil {
		err = p.judge(out)
	}
	if err == nil {
		return nil
	}
	return stoodStill(out.explain(err))
}

// stoodStill marks a failure that is rping's when it has found no way in time.
func stoodStill(err error) error {
	if err != nil && strings.Contains(err.Error(), resolving) {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	return err
}

// ends are both programs. A server of the guest counts what it has read: each round
// prints a line.
func (p *pings) ends(ctx context.Context, b *bench) ends {
	size := fmt.Sprint(p.size)
	own := b.ours("ping", "-d", "-j", "--device", ourEnd, "--timeout", "20s")
	if p.server {
		return ends{
			server: b.host(ctx, append(own, "-s", "-a", p.family.ours.String())...),
			client: b.guest(ctx, 4*time.Minute, fmt.Sprintf("rping -c -V -a %s -C %d -S %s", p.family.ours, p.rounds, size)),
		}
	}
	return ends{
		server: b.guest(ctx, 4*time.Minute, fmt.Sprintf(
			`rping -s -v -a %s -S %s >/tmp/rping; rc=$?; grep -c '^server ping data: rdma-ping-[0-9]*: [A-z]' /tmp/rping; exit $rc`,
			p.family.guest, size)),
		client: b.host(ctx, append(own, "-c", "-V", "-a", p.family.guest.String(), "-C", fmt.Sprint(p.rounds), "-S", size)...),
	}
}

// judge demands that both ends tell of all rounds. Of our program that is what
// counts; rping's client says nothing but that it succeeded.
func (p *pings) judge(out outputs) error {
	own, rxe := out.client, out.server
	if p.server {
		own, rxe = out.server, out.client
	}
	for _, want := range []string{
		fmt.Sprintf(`"rounds": %d`, p.rounds), `"lost": 0`, fmt.Sprintf(`"size": %d`, p.size), fmt.Sprintf("path mtu %d,", p.mtu),
	} {
		if !strings.Contains(own, want) {
			return fmt.Errorf("ours does not say %q", want)
		}
	}
	if count := fmt.Sprint(p.rounds); !p.server && !strings.Contains("\n"+rxe, "\n"+count+"\n") {
		return fmt.Errorf("rping has not printed %s rounds", count)
	}
	if strings.Contains(rxe, "mismatch") {
		return errors.New("rping complains about the data")
	}
	return nil
}

// accepts waits until a server of ping or rping takes requests.
func (r *rig) accepts(ctx context.Context, s *program, ours bool) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if ours {
		return s.says(ctx, "waiting for the client")
	}
	for ctx.Err() == nil {
		line := fmt.Sprintf("rdma resource show cm_id | grep -q 'state LISTEN .*:%d '", rpingPort)
		if r.guest(ctx, 10*time.Second, line).Run() == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("nobody in the guest listens on RDMA port %d", rpingPort)
}
