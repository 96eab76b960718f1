package xsk_test

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
)

// etherType is for local experiments: nothing of the kernel sends it, and only
// frames of it are redirected.
const etherType = 0x88b5

// cable is a veth pair in a network namespace of its own, with an XDP program
// on each end that redirects etherType into an XSKMAP.
type cable struct {
	t    testing.TB
	ends [2]end
}

type end struct {
	link netlink.Link
	xsks *ebpf.Map
}

type cableConfig struct {
	queues int
	mtu    int
	frags  bool
}

// skipUnless skips the test, or fails it where ROCE_XDP_REQUIRE says that
// AF_XDP must work, unless err is nil.
func skipUnless(t testing.TB, capability string, err error) {
	t.Helper()
	switch {
	case err == nil:
	case slices.Contains(strings.Split(os.Getenv("ROCE_XDP_REQUIRE"), ","), "xdp"):
		t.Fatalf("%s is required here: %v", capability, err)
	default:
		t.Skipf("needs %s: %v", capability, err)
	}
}

// enterNetns moves the test's goroutine into a new network namespace, which
// vanishes with the thread.
func enterNetns(t testing.TB) {
	t.Helper()
	runtime.LockOSThread()
	old, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		old.Close()
		runtime.UnlockOSThread()
		skipUnless(t, "CAP_SYS_ADMIN (a network namespace)", err)
	}
	t.Cleanup(func() {
		// A thread that cannot go back stays locked and dies with the goroutine.
		if err := unix.Setns(int(old.Fd()), unix.CLONE_NEWNET); err == nil {
			runtime.UnlockOSThread()
		}
		old.Close()
	})
}

func newCable(t testing.TB, cfg cableConfig) *cable {
	t.Helper()
	enterNetns(t)
	if cfg.queues == 0 {
		cfg.queues = 1
	}
	if cfg.mtu == 0 {
		cfg.mtu = 1500
	}
	attrs := func(name string) netlink.LinkAttrs {
		a := netlink.NewLinkAttrs()
		a.Name, a.MTU, a.NumTxQueues, a.NumRxQueues = name, cfg.mtu, cfg.queues, cfg.queues
		return a
	}
	veth := &netlink.Veth{LinkAttrs: attrs("a0"), PeerName: "b0", PeerMTU: uint32(cfg.mtu), PeerNumTxQueues: uint32(cfg.queues), PeerNumRxQueues: uint32(cfg.queues)}
	skipUnless(t, "CAP_NET_ADMIN (a veth pair)", netlink.LinkAdd(veth))
	c := &cable{t: t}
	for i, name := range []string{"a0", "b0"} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(l); err != nil {
			t.Fatal(err)
		}
		c.ends[i] = end{link: l, xsks: attachRedirect(t, l.Attrs().Index, cfg)}
	}
	t.Cleanup(func() { _ = netlink.LinkDel(veth) }) // gone with the namespace anyhow
	c.waitRunning()
	return c
}

// waitRunning waits until the kernel has seen both carriers.
func (c *cable) waitRunning() {
	c.t.Helper()
	eventually(c.t, "both ends are up", func() bool {
		for _, e := range c.ends {
			l, err := netlink.LinkByIndex(e.link.Attrs().Index)
			if err != nil || l.Attrs().OperState != netlink.OperUp {
				return false
			}
		}
		return true
	})
}

func (c *cable) ifindex(i int) int { return c.ends[i].link.Attrs().Index }

// socket makes a socket on an end and enters it into that end's map.
func (c *cable) socket(i, queue int, opts *xsk.Options) *xsk.Socket {
	c.t.Helper()
	s, err := xsk.NewSocket(c.ifindex(i), queue, opts)
	if errors.Is(err, xsk.ErrPermission) || errors.Is(err, unix.EAFNOSUPPORT) {
		skipUnless(c.t, "CAP_NET_RAW and AF_XDP", err)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			c.t.Errorf("close: %v", err)
		}
	})
	c.register(i, s)
	return s
}

func (c *cable) register(i int, s *xsk.Socket) {
	c.t.Helper()
	if err := c.ends[i].xsks.Update(uint32(s.Queue()), uint32(s.FD()), ebpf.UpdateAny); err != nil {
		c.t.Fatalf("enter socket into the XSKMAP: %v", err)
	}
}

// attachRedirect attaches, in native mode, a program that redirects etherType
// to the socket of its queue and passes the rest.
func attachRedirect(t testing.TB, ifindex int, cfg cableConfig) *ebpf.Map {
	t.Helper()
	xsks, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4, MaxEntries: uint32(cfg.queues)})
	skipUnless(t, "CAP_BPF (an XSKMAP)", err)
	t.Cleanup(func() { xsks.Close() })
	var flags uint32
	if cfg.frags {
		flags = unix.BPF_F_XDP_HAS_FRAGS
	}
	const pass = 2
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:    ebpf.XDP,
		License: "Dual BSD/GPL",
		Flags:   flags,
		Instructions: asm.Instructions{
			asm.LoadMem(asm.R2, asm.R1, 0, asm.Word),  // data
			asm.LoadMem(asm.R3, asm.R1, 4, asm.Word),  // data_end
			asm.LoadMem(asm.R6, asm.R1, 16, asm.Word), // rx_queue_index
			asm.Mov.Reg(asm.R4, asm.R2),
			asm.Add.Imm(asm.R4, 14),
			asm.JGT.Reg(asm.R4, asm.R3, "pass"),
			asm.LoadMem(asm.R5, asm.R2, 12, asm.Half),
			asm.HostTo(asm.BE, asm.R5, asm.Half),
			asm.JNE.Imm(asm.R5, etherType, "pass"),
			asm.LoadMapPtr(asm.R1, xsks.FD()),
			asm.Mov.Reg(asm.R2, asm.R6),
			asm.Mov.Imm(asm.R3, pass),
			asm.FnRedirectMap.Call(),
			asm.Return(),
			asm.Mov.Imm(asm.R0, pass).WithSymbol("pass"),
			asm.Return(),
		},
	})
	skipUnless(t, "CAP_BPF (an XDP program)", err)
	t.Cleanup(func() { prog.Close() })
	l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: ifindex, Flags: link.XDPDriverMode})
	skipUnless(t, "CAP_NET_ADMIN (native XDP on veth)", err)
	t.Cleanup(func() { l.Close() })
	return xsks
}

// eventually fails the test unless cond holds within a few seconds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !cond(); time.Sleep(200 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}
