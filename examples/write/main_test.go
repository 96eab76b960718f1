package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/internal/daemon/daemontest"
	"github.com/roce-xdp/roce-xdp/internal/daemon/serve"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
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

// The same program at a daemon, without a network.
func TestThroughADaemon(t *testing.T) {
	d, _ := daemontest.Daemons(t, datapathtest.Options{}, serve.Config{Name: "test"})
	t.Setenv(session.DirVariable, d.Dir)
	var out strings.Builder
	if err := run(d.Device.Name(), &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != "RDMA_WRITE: hello, RDMA\n" {
		t.Errorf("output %q", out.String())
	}
	if err := run("nosuch0", &out); !errors.Is(err, verbs.ErrNoDevice) {
		t.Errorf("an interface that the daemon does not serve: %v", err)
	}
}

func TestErrorsComeOut(t *testing.T) {
	if err := run("nosuch0", &strings.Builder{}); !errors.Is(err, datapath.ErrNoInterface) {
		t.Errorf("run on a missing interface = %v, want ErrNoInterface", err)
	}
}
