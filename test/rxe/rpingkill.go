package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// killRows kill one of the two programs, by SIGKILL, in the middle of endless rounds.
func killRows() []row {
	var all []row
	for _, f := range families {
		for _, c := range []struct {
			name string
			run  func(context.Context, *bench, family) error
		}{
			{"KILL_RPING_CLIENT", killGuestClient},
			{"KILL_RPING_SERVER", killGuestServer},
			{"KILL_OUR_CLIENT", killOurClient},
			{"KILL_OUR_SERVER", killOurServer},
		} {
			all = append(all, row{
				name: fmt.Sprintf("rping/%s/%s", c.name, f.name), group: "rping", limit: 2 * time.Minute,
				run: func(ctx context.Context, b *bench) error {
					return b.patiently(ctx, func() error {
						ctx, cancel := context.WithCancel(ctx)
						defer cancel()
						return c.run(ctx, b, f)
					})
				},
			})
		}
	}
	return all
}

// underWay is how long rounds run before one end is killed.
const underWay = 300 * time.Millisecond

// lifetime is how long an end may live on whose peer was killed: a message that nobody
// acknowledges is sent for 4 s.
const lifetime = 30 * time.Second

// own is our program.
func (b *bench) own(ctx context.Context, args ...string) (*program, error) {
	return start(b.host(ctx, append(b.ours("ping", "-d", "-j", "--device", ourEnd), args...)...))
}

// rping is the guest's.
func (b *bench) rping(ctx context.Context, args ...string) (*program, error) {
	return start(b.guest(ctx, 90*time.Second, "rping "+strings.Join(args, " ")))
}

// killRping kills all rping programs of the guest.
func (b *bench) killRping(ctx context.Context) error {
	if out, err := b.guest(ctx, 10*time.Second, "kill -9 $(pidof rping)").CombinedOutput(); err != nil {
		return fmt.Errorf("kill rping: %w: %s", err, out)
	}
	return nil
}

// connectPings starts both programs and waits until rounds are under way.
func (b *bench) connectPings(ctx context.Context, server bool, ours, rxe []string) (own, guest *program, err error) {
	if server {
		if own, err = b.own(ctx, ours...); err == nil {
			err = b.accepts(ctx, own, true)
		}
		if err == nil {
			guest, err = b.rping(ctx, rxe...)
		}
	} else {
		if guest, err = b.rping(ctx, rxe...); err == nil {
			err = b.accepts(ctx, guest, false)
		}
		if err == nil {
			own, err = b.own(ctx, ours...)
		}
	}
	if err == nil {
		err = own.says(ctx, "connected ", guest)
	}
	time.Sleep(underWay)
	return own, guest, stoodStill(err)
}

var someRounds = regexp.MustCompile(`"rounds": [1-9]`)

// killGuestClient: the kernel ends a dead program's connection, of which our server
// is told. That is no error between rounds.
func killGuestClient(ctx context.Context, b *bench, f family) error {
	own, _, err := b.connectPings(ctx, true, []string{"-s", "-a", f.ours.String()}, []string{"-c", "-a", f.ours.String()})
	if err != nil {
		return err
	}
	if err := b.killRping(ctx); err != nil {
		return err
	}
	err = own.ended(ctx, lifetime)
	text := own.out.String()
	switch {
	case errors.Is(err, errRunsOn) || ctx.Err() != nil:
		return err
	case !someRounds.MatchString(text):
		return fmt.Errorf("our server tells of no rounds: %w: %s", err, text)
	case err != nil && !strings.Contains(text, "the peer has disconnected"):
		return fmt.Errorf("our server does not say why: %w: %s", err, text)
	}
	return nil
}

// killGuestServer: our client must say what has become of its server. rdma_rxe frees
// the receives of a dead program before it ends the connection: a message in between
// is refused.
func killGuestServer(ctx context.Context, b *bench, f family) error {
	own, _, err := b.connectPings(ctx, false, []string{"-c", "-a", f.guest.String()}, []string{"-s", "-a", f.guest.String()})
	if err != nil {
		return err
	}
	if err := b.killRping(ctx); err != nil {
		return err
	}
	err = own.ended(ctx, lifetime)
	text := own.out.String()
	switch {
	case errors.Is(err, errRunsOn) || ctx.Err() != nil:
		return err
	case err == nil || !someRounds.MatchString(text):
		return fmt.Errorf("our client tells of no failure after some rounds: %s", text)
	case !strings.Contains(text, "has ended the connection") && !strings.Contains(text, "its program was killed"):
		return fmt.Errorf("our client does not say why: %s", text)
	}
	return nil
}

// killOurClient: a dead program's device says nothing any more. The guest's server has
// that connection for ever, and must take the next one.
func killOurClient(ctx context.Context, b *bench, f family) error {
	args := []string{"-c", "-a", f.guest.String()}
	own, guest, err := b.connectPings(ctx, false, args, []string{"-s", "-P", "-a", f.guest.String()})
	if err != nil {
		return err
	}
	if err := own.kill(ctx); err != nil {
		return err
	}
	again, err := b.own(ctx, append(args, "-C", "20", "-V")...)
	if err != nil {
		return err
	}
	if err := again.ended(ctx, lifetime); err != nil {
		return fmt.Errorf("the next connection: %w: %s; rping: %s", err, again.out.String(), guest.out.String())
	}
	return b.killRping(ctx)
}

// killOurServer: likewise for a client of the guest.
func killOurServer(ctx context.Context, b *bench, f family) error {
	args, client := []string{"-s", "-a", f.ours.String()}, []string{"-c", "-a", f.ours.String()}
	own, _, err := b.connectPings(ctx, true, args, client)
	if err != nil {
		return err
	}
	if err := own.kill(ctx); err != nil {
		return err
	}
	again, err := b.own(ctx, args...)
	if err == nil {
		err = b.accepts(ctx, again, true)
	}
	if err != nil {
		return err
	}
	next, err := b.rping(ctx, append(client, "-C", "20", "-V")...)
	if err != nil {
		return err
	}
	if err := errors.Join(next.ended(ctx, lifetime), again.ended(ctx, lifetime)); err != nil {
		return fmt.Errorf("the next connection: %w: %s; rping: %s", err, again.out.String(), next.out.String())
	}
	if !strings.Contains(again.out.String(), `"rounds": 20`) {
		return fmt.Errorf("our server has not served 20 rounds: %s", again.out.String())
	}
	return b.killRping(ctx) // the first one, which nobody has told
}

// kill ends a program of this host by SIGKILL.
func (p *program) kill(ctx context.Context) error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	err := p.ended(ctx, 10*time.Second)
	if errors.Is(err, errRunsOn) || ctx.Err() != nil {
		return err
	}
	return nil
}
