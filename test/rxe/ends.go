package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// program is a command that runs, here or in the guest.
type program struct {
	cmd  *exec.Cmd
	out  printout
	done chan struct{} // closed when it has ended
	err  error         // how, once done is closed
}

// start starts a command and keeps what it prints, both streams together.
func start(cmd *exec.Cmd) (*program, error) {
	p := &program{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// says waits until the program has printed a text. It is no use to wait on when that
// program has ended, or another that is needed.
func (p *program) says(ctx context.Context, text string, needed ...*program) error {
	for over := (*program)(nil); !strings.Contains(p.out.String(), text); {
		if over != nil {
			return fmt.Errorf("no %q: a program ended (%w): %s", text, over.err, over.out.String())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %q: %w: %s", text, context.Cause(ctx), p.out.String())
		case <-time.After(20 * time.Millisecond):
		}
		for _, q := range append(needed, p) {
			if q.over() {
				over = q
			}
		}
	}
	return nil
}

// over reports whether the program has ended.
func (p *program) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// ended waits until the program has ended, and says how.
func (p *program) ended(ctx context.Context, limit time.Duration) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(limit):
		return fmt.Errorf("%w %v: %s", errRunsOn, limit, p.out.String())
	}
}

var errRunsOn = errors.New("it still runs after")

// printout is what a program has printed so far.
type printout struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (p *printout) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *printout) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

// ends are the two programs of a row, one of them in the guest.
type ends struct{ server, client *exec.Cmd }

// outputs are what they printed.
type outputs struct{ server, client string }

// run starts the server, the client when the server is ready, and waits for both.
// cancel ends whatever runs: when one fails, the other need not go on.
func (e ends) run(cancel context.CancelFunc, ready func(server *program) error) (outputs, error) {
	server, err := start(e.server)
	if err != nil {
		return outputs{}, err
	}
	var client *program
	if err = ready(server); err == nil {
		client, err = start(e.client)
	}
	if err != nil {
		cancel()
		<-server.done
		return outputs{server: server.out.String()}, err
	}
	first, second := server, client
	select {
	case <-server.done:
	case <-client.done:
		first, second = client, server
	}
	<-first.done
	if err = first.err; err != nil {
		cancel()
	}
	<-second.done
	if err == nil {
		err = second.err
	}
	return outputs{server.out.String(), client.out.String()}, err
}

// explain adds what the programs printed.
func (o outputs) explain(err error) error {
	return fmt.Errorf("%w\nserver: %s\nclient: %s", err, o.server, o.client)
}
