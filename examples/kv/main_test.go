package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
)

// TestNetnsKV reads keys of a server on another host.
func TestNetnsKV(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	address := "[" + pair.B.IPv6.String() + "]:7471"
	long := strings.Repeat("v", maxValue)
	args := []string{pair.B.Ifname, address, "serve", "apple=red", "long=" + long, "none=", "banana=yellow", "apple=green"}
	listening, served := netns.NewAwait("listening"), make(chan error, 1)
	go func() { served <- pair.B.NS.Do(func() error { return run(ctx, args, listening) }) }()
	if err := listening.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	ask := func(key string) (string, error) {
		var out strings.Builder
		err := pair.A.NS.Do(func() error { return run(ctx, []string{pair.A.Ifname, address, "get", key}, &out) })
		return strings.TrimSuffix(out.String(), "\n"), err
	}
	for key, want := range map[string]string{"apple": "green", "banana": "yellow", "long": long, "none": ""} {
		if got, err := ask(key); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %q", key, got, err, want)
		}
	}
	if _, err := ask("cherry"); !errors.Is(err, errNoKey) {
		t.Errorf("a key that is not there: %v", err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestPut fills the table, replaces a value, and finds no room for more.
func TestPut(t *testing.T) {
	table := make([]byte, slots*slotSize)
	for i := range slots {
		if err := put(table, fmt.Sprint(i), "old"); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(table, "7", "new"); err != nil || bytes.Count(table, []byte("new")) != 1 || bytes.Count(table, []byte("old")) != slots-1 {
		t.Errorf("replacing a value: %v", err)
	}
	for _, key := range []string{"one more", "", strings.Repeat("k", maxKey+1)} {
		if err := put(table, key, ""); err == nil {
			t.Errorf("%q was put", key)
		}
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"eth0", "x"}, {"eth0", "x", "get"}, {"eth0", "x", "put", "a"}} {
		if err := run(context.Background(), args, nil); err == nil || !strings.Contains(err.Error(), "usage") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if err := run(context.Background(), []string{"nosuch0", ":1", "get", "a"}, nil); !errors.Is(err, datapath.ErrNoInterface) {
		t.Errorf("no interface: %v", err)
	}
}
