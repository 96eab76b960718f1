package main

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// shell are the two ends as scripts.
func shell(ctx context.Context, server, client string) ends {
	return ends{server: gentle(exec.CommandContext(ctx, "sh", "-c", server)), client: gentle(exec.CommandContext(ctx, "sh", "-c", client))}
}

// Both must succeed, and the failure of either ends the other.
func TestEnds(t *testing.T) {
	ready := func(s *program) error { return s.says(context.Background(), "ready") }
	for _, tt := range []struct {
		name, server, client string
		ready                func(*program) error
		ok                   bool
		out                  outputs
	}{
		{"both succeed", "echo ready; echo more >&2", "echo hello", ready, true, outputs{"ready\nmore\n", "hello\n"}},
		{"the client fails", "echo ready; exec sleep 60", "echo bad; exit 3", ready, false, outputs{"ready\n", "bad\n"}},
		{"the server fails", "echo ready; exit 1", "exec sleep 60", ready, false, outputs{"ready\n", ""}},
		{"the server is never ready", "echo oh", "echo not reached", ready, false, outputs{"oh\n", ""}},
		{"nobody listens", "exec sleep 60", "echo not reached", func(*program) error { return errors.New("no") }, false, outputs{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			out, err := shell(ctx, tt.server, tt.client).run(cancel, tt.ready)
			if tt.ok != (err == nil) || out != tt.out {
				t.Errorf("%+v, error %v", out, err)
			}
		})
	}
}

// A program that runs on is told from one that failed, and from one that is killed.
func TestEnded(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	p, err := start(gentle(exec.CommandContext(ctx, "sh", "-c", "echo up; exec sleep 60")))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.says(ctx, "up"); err != nil {
		t.Fatal(err)
	}
	if err := p.ended(ctx, 10*time.Millisecond); !errors.Is(err, errRunsOn) {
		t.Errorf("it runs: %v", err)
	}
	if err := p.kill(ctx); err != nil {
		t.Errorf("kill: %v", err)
	}
	if err := p.ended(ctx, time.Second); err == nil || errors.Is(err, errRunsOn) {
		t.Errorf("it was killed: %v", err)
	}
	if err := p.says(ctx, "more"); err == nil || !strings.Contains(err.Error(), `no "more": a program ended (signal: killed)`) {
		t.Errorf("it says no more: %v", err)
	}
	q, err := start(gentle(exec.CommandContext(ctx, "sh", "-c", "exec sleep 60")))
	if err != nil {
		t.Fatal(err)
	}
	if err := q.says(ctx, "up", p); err == nil || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("what it waits for has ended: %v", err)
	}
	if err := q.kill(ctx); err != nil {
		t.Error(err)
	}
}

// Our report and rping's count are both demanded.
func TestJudgePings(t *testing.T) {
	const own = `connected: path mtu 1024, 1 READs {"lost": 0, "rounds": 30, "size": 64}`
	for _, tt := range []struct {
		name          string
		server        bool
		first, second string
		ok            bool
	}{
		{"client", false, "30\nserver DISCONNECT EVENT...\n", own, true},
		{"server", true, own, "", true},
		{"fewer at rping", false, "29\n", own, false},
		{"more digits at rping", false, "130\n", own, false},
		{"fewer here", true, strings.Replace(own, "30", "29", 1), "", false},
		{"another MTU", true, strings.Replace(own, "1024", "4096", 1), "", false},
		{"one lost", false, "30\n", strings.Replace(own, `"lost": 0`, `"lost": 1`, 1), false},
		{"mismatch", true, own, "data mismatch!", false},
	} {
		p := pings{family: families[0], server: tt.server, mtu: 1024, size: 64, rounds: 30}
		if err := p.judge(outputs{tt.first, tt.second}); tt.ok != (err == nil) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
