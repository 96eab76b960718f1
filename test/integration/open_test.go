package integration_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestOpenRefused opens devices that cannot be. Each error is one that a program
// can tell, and its text says what was found and what to do.
func TestOpenRefused(t *testing.T) {
	for _, tt := range []struct {
		name  string
		link  netns.PairOptions
		spoil func(*testing.T, *netns.End)
		want  error
		says  []string
	}{
		{
			"wrong interface name", netns.PairOptions{},
			func(_ *testing.T, e *netns.End) { e.Ifname = "eth9" },
			datapath.ErrNoInterface, []string{"eth9", "it has lo, eth0"},
		},
		{
			"loopback", netns.PairOptions{},
			func(_ *testing.T, e *netns.End) { e.Ifname = "lo" },
			datapath.ErrInterface, []string{"no Ethernet address", "use an Ethernet interface"},
		},
		{
			"MTU too small", netns.PairOptions{MTU: 335, NoIPv6: true},
			func(*testing.T, *netns.End) {},
			datapath.ErrInterface, []string{"MTU is 335", "ip link set eth0 mtu 336"},
		},
		{
			"XDP program there", netns.PairOptions{},
			attachOther,
			bpf.ErrBusy, []string{"other_program", "remove it with ip link set dev eth0 xdp"},
		},
		{
			"device open already", netns.PairOptions{},
			func(t *testing.T, e *netns.End) { open(t, e, nil) },
			bpf.ErrBusy, []string{"end the process that holds it", "bpftool link detach id"},
		},
		{
			"queues of the peer", netns.PairOptions{},
			fewerQueues,
			bpf.ErrQueues, []string{"more transmit queues", "ethtool -L"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hosts := netns.PairForTest(t, tt.link)
			tt.spoil(t, hosts.A)
			dev, err := openErr(hosts.A, &datapath.Options{Mode: bpf.ModeNative})
			if err == nil {
				dev.Close()
				t.Fatal("it opened")
			}
			if !errors.Is(err, tt.want) {
				t.Errorf("%q is not %q", err, tt.want)
			}
			checkText(t, err.Error(), tt.says)
		})
	}
}

func checkText(t *testing.T, text string, says []string) {
	t.Helper()
	for _, s := range says {
		if !strings.Contains(text, s) {
			t.Errorf("%q does not say %q", text, s)
		}
	}
}

// attachOther attaches a program of somebody else, which ends with the interface.
func attachOther(t *testing.T, e *netns.End) {
	t.Helper()
	prog := passProgram(t)
	must(t, e.NS.Do(func() error {
		link, err := netlink.LinkByName(e.Ifname)
		if err != nil {
			return err
		}
		return netlink.LinkSetXdpFdWithFlags(link, prog.FD(), unix.XDP_FLAGS_DRV_MODE)
	}))
}

// fewerQueues replaces the link by one whose far end sends on more queues than
// this end receives on.
func fewerQueues(t *testing.T, e *netns.End) {
	t.Helper()
	must(t, e.NS.Do(func() error {
		old, err := netlink.LinkByName(e.Ifname)
		if err != nil {
			return err
		}
		if err := netlink.LinkDel(old); err != nil {
			return err
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.NumRxQueues, attrs.NumTxQueues = e.Ifname, 1, 1
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "far", PeerNumTxQueues: 4, PeerNumRxQueues: 4}); err != nil {
			return err
		}
		for _, name := range []string{e.Ifname, "far"} {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			if err := netlink.LinkSetUp(link); err != nil {
				return err
			}
		}
		return nil
	}))
}

// TestOpenUnprivileged opens the device in a process with less than it needs.
// The capabilities that docs/privileges.md names must be enough.
func TestOpenUnprivileged(t *testing.T) {
	netns.Require(t)
	if os.Geteuid() != 0 {
		netns.Missing(t, "netns", "only root can start a process with fewer capabilities")
	}
	// CAP_IPC_LOCK stands for a limit of locked memory that is high enough.
	all := []uintptr{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_IPC_LOCK}
	for _, tt := range []struct {
		name string
		l    limits
		says []string // nothing: it opens
	}{
		{"no capability", limits{nobody: true}, []string{"CAP_BPF", "CAP_NET_ADMIN", "docs/privileges.md"}},
		{"no CAP_BPF", limits{nobody: true, caps: without(all, unix.CAP_BPF)}, []string{"CAP_BPF", "docs/privileges.md"}},
		{"no CAP_NET_ADMIN", limits{nobody: true, caps: without(all, unix.CAP_NET_ADMIN)}, []string{"CAP_NET_ADMIN", "docs/privileges.md"}},
		{"no CAP_NET_RAW", limits{nobody: true, caps: without(all, unix.CAP_NET_RAW)}, []string{"CAP_NET_RAW"}},
		{
			"too little locked memory", limits{nobody: true, caps: without(all, unix.CAP_IPC_LOCK), memlock: 64 << 10},
			[]string{"locked memory limit", "ulimit -l", "LimitMEMLOCK"},
		},
		{"enough of everything", limits{nobody: true, caps: all}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hosts := netns.PairForTest(t, netns.PairOptions{})
			said := startChild(t, hosts.A, childOpen, tt.l).said
			if tt.says == nil && said != "" {
				t.Errorf("the child says %q", said)
			}
			if tt.says != nil && said == "" {
				t.Error("the child has opened the device")
			}
			checkText(t, said, tt.says)
		})
	}
}

func without(all []uintptr, one uintptr) []uintptr {
	return slices.DeleteFunc(slices.Clone(all), func(c uintptr) bool { return c == one })
}

// TestKilled kills a process that has the device open, as the kernel does when
// memory is short. The next one must find the interface free and working.
func TestKilled(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{})
	c := startChild(t, hosts.A, childHold, limits{})
	if c.said != "" {
		t.Fatalf("the child says %q", c.said)
	}
	if _, err := openErr(hosts.A, nil); !errors.Is(err, bpf.ErrBusy) {
		t.Fatalf("while the child lives: %v, want %v", err, bpf.ErrBusy)
	}
	c.kill()
	r := &rig{hosts: hosts, b: open(t, hosts.B, nil)}
	// The kernel takes the sockets of a dead process down in the background.
	eventually(t, "the interface is free", func() bool {
		dev, err := openErr(hosts.A, nil)
		if err != nil {
			return false
		}
		r.a = dev
		return true
	})
	t.Cleanup(func() { r.a.Close() })
	must(t, r.pair(t, verbstest.Options{}).Every(1, 10_000))
}
