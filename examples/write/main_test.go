package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
)

func TestNetnsWrite(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{})
	var out strings.Builder
	if err := pair.A.NS.Do(func() error { return run(pair.A.Ifname, &out) }); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), ": hello, RDMA\n") {
		t.Errorf("output %q", out.String())
	}
}

func TestErrorsComeOut(t *testing.T) {
	if err := run("nosuch0", &strings.Builder{}); !errors.Is(err, datapath.ErrNoInterface) {
		t.Errorf("run on a missing interface = %v, want ErrNoInterface", err)
	}
}
