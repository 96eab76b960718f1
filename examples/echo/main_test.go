package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
)

// TestNetnsEcho asks a server on another host, one client after the other.
func TestNetnsEcho(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	address := pair.B.IPv4.String() + ":7471"
	listening, served := netns.NewAwait("listening"), make(chan error, 1)
	go func() {
		served <- pair.B.NS.Do(func() error { return run(ctx, []string{pair.B.Ifname, address, "server"}, listening) })
	}()
	if err := listening.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{"hello, RDMA", "", strings.Repeat("x", maxMessage)} {
		var out strings.Builder
		err := pair.A.NS.Do(func() error { return run(ctx, []string{pair.A.Ifname, address, "client", message}, &out) })
		if err != nil || out.String() != message+"\n" {
			t.Errorf("%d bytes came back of %d, %v", out.Len()-1, len(message), err)
		}
	}
	err := pair.A.NS.Do(func() error {
		return run(ctx, []string{pair.A.Ifname, pair.B.IPv4.String() + ":1", "client", "x"}, &strings.Builder{})
	})
	if !errors.Is(err, cm.ErrNoListener) {
		t.Errorf("asked at a port where nobody listens: %v", err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"eth0"}, {"eth0", "x", "client"}, {"eth0", "x", "y"}} {
		if err := run(context.Background(), args, nil); err == nil || !strings.Contains(err.Error(), "usage") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if err := run(context.Background(), []string{"nosuch0", ":1", "server"}, nil); !errors.Is(err, datapath.ErrNoInterface) {
		t.Errorf("no interface: %v", err)
	}
}
