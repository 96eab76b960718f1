package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// rocePort is RoCEv2's UDP port.
const rocePort = 4791

// mountBPFFS mounts a BPF file system of the test's own.
func mountBPFFS(t *testing.T, dir string) string {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// linkID identifies a pinned link.
func linkID(t *testing.T, path string) link.ID {
	t.Helper()
	l, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil {
		t.Fatal(err)
	}
	return info.ID
}

// kernel receives what the XDP program leaves to the kernel of RoCEv2.
type kernel struct {
	got  *net.UDPConn
	from *net.UDPConn
	to   netip.AddrPort
}

func newKernel(t *testing.T, at, from *netns.End) *kernel {
	t.Helper()
	k := &kernel{to: netip.AddrPortFrom(at.IPv4, rocePort)}
	listen := func(ns *netns.NS, a *net.UDPAddr) (c *net.UDPConn) {
		err := ns.Do(func() (err error) {
			c, err = net.ListenUDP("udp4", a)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	k.got = listen(at.NS, net.UDPAddrFromAddrPort(k.to))
	k.from = listen(from.NS, nil)
	return k
}

// send sends a datagram that looks like RoCEv2 for the queue pair.
func (k *kernel) send(t *testing.T, qpn uint32) {
	t.Helper()
	frame := make([]byte, 12+4) // BTH and ICRC
	frame[5], frame[6], frame[7] = byte(qpn>>16), byte(qpn>>8), byte(qpn)
	if _, err := k.from.WriteToUDPAddrPort(frame, k.to); err != nil {
		t.Error(err)
	}
}

// reaches reports whether the kernel gets a frame for an unknown queue pair. One that
// is dropped does not come in any time, one that is passed within the second that is
// waited, unless the machine is very busy; so both kinds are sent several times.
func (k *kernel) reaches(t *testing.T, within time.Duration) bool {
	t.Helper()
	b := make([]byte, 64)
	until := time.Now().Add(within)
	for time.Now().Before(until) {
		k.send(t, 0x123456)
		if err := k.got.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		switch _, err := k.got.Read(b); {
		case err == nil:
			return true
		case !errors.Is(err, os.ErrDeadlineExceeded):
			t.Fatal(err)
		}
	}
	return false
}

// A daemon that pins leaves its program attached, which treats RoCE as configured; the next
// one takes over without a moment in which none is attached or the kernel gets a frame, and
// one that does not pin cleans up.
func TestNetnsPins(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 1500, StaticNeighbors: true})
	dir := netns.ShortTempDir(t)
	pins := filepath.Join(mountBPFFS(t, filepath.Join(dir, "bpf")), "pins")
	pinned := filepath.Join(pins, "eth0", "link")
	file := filepath.Join(dir, "toml")
	configure := func(noSocket string, pin bool) {
		t.Helper()
		text := fmt.Sprintf("user = \"nobody\"\npin_dir = %q\n[interface.eth0]\npin = %v\nno_socket = %q\n", pins, pin, noSocket)
		writeConfig(t, file, text)
	}
	start := func() *runningDaemon {
		t.Helper()
		return startDaemon(t, pair.A.NS, filepath.Join(dir, "run"), "--config "+file)
	}
	k := newKernel(t, pair.A, pair.B)
	if !k.reaches(t, 20*time.Second) {
		t.Fatal("without a daemon nothing reaches the kernel")
	}

	configure("pass", true)
	d := start()
	first := linkID(t, pinned)
	if k.reaches(t, 300*time.Millisecond) {
		t.Error("the kernel gets RoCE beside a daemon")
	}
	d.stop(t)
	if !xdpAttached(t, pair.A.NS, "eth0") {
		t.Fatal("the program has gone with the daemon")
	}
	if !k.reaches(t, 20*time.Second) {
		t.Error("no_socket is pass, and the kernel gets nothing")
	}

	configure("drop", true)
	d = start()
	d.stop(t)
	if k.reaches(t, 300*time.Millisecond) {
		t.Error("no_socket is drop, and the kernel gets a frame")
	}

	// From one daemon, killed, to the next, under traffic.
	d = start()
	watch := watchTakeover(t, k, pair.A)
	if err := d.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = d.cmd.Wait() // killed
	d = start()
	watch()
	if got := linkID(t, pinned); got != first {
		t.Errorf("the link is %d, it was %d", got, first)
	}
	d.stop(t)

	configure("drop", false)
	d = start()
	if _, err := os.Lstat(pinned); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a daemon that does not pin left the pins: %v", err)
	}
	d.stop(t)
	if xdpAttached(t, pair.A.NS, "eth0") {
		t.Error("the program is still attached")
	}
}

// watchTakeover sends frames and looks at the program until the function that it
// returns is called, which reports what went wrong.
func watchTakeover(t *testing.T, k *kernel, at *netns.End) (end func()) {
	t.Helper()
	h, err := at.NS.Handle()
	if err != nil {
		t.Fatal(err)
	}
	var sent, missing atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if l, err := h.LinkByIndex(at.Ifindex); err != nil || l.Attrs().Xdp == nil || !l.Attrs().Xdp.Attached {
				missing.Add(1)
			}
			k.send(t, 0x123456)
			sent.Add(1)
			time.Sleep(time.Millisecond)
		}
	}()
	return func() {
		t.Helper()
		close(stop)
		<-done
		h.Close()
		time.Sleep(50 * time.Millisecond) // for the last frame
		if err := k.got.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if n, err := k.got.Read(make([]byte, 64)); err == nil {
			t.Errorf("the kernel got a frame of %d bytes during the takeover", n)
		}
		if missing.Load() != 0 || sent.Load() < 10 {
			t.Errorf("of %d times, no program was attached %d", sent.Load(), missing.Load())
		}
	}
}

// Where there is no BPF file system, as behind "ip netns exec", the error says so.
func TestNetnsPinsNeedBPFFS(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 1500})
	dir := netns.ShortTempDir(t)
	cmd := program(t.Context(), pair.A.NS, "run --pin --runtime-dir "+filepath.Join(dir, "run")+" --pin-dir "+filepath.Join(dir, "pins")+" eth0")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("it runs: %s", out)
	}
	wantMatch(t, "error", string(out), `pins is not on a BPF file system: mount one \(mount -t bpf bpf /sys/fs/bpf\); "ip netns exec" hides it`)
	wantGone(t, filepath.Join(dir, "run"), filepath.Join(dir, "pins"))
}

// wantGone wants files not to be there.
func wantGone(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("left behind: %s (%v)", path, err)
		}
	}
}

// A start that fails leaves nothing that it has made: directories, pins, XDP programs. What a
// daemon before it has pinned stays.
func TestNetnsRunFailsWithoutTraces(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 1500, Queues: 1})
	dir := netns.ShortTempDir(t)
	bpffs, run := mountBPFFS(t, filepath.Join(dir, "bpf")), filepath.Join(dir, "run", "roce-xdp")
	file := filepath.Join(dir, "toml")
	const refused = "socket = \"zero-copy\"\n" // by drivers such as this
	fails := func(t *testing.T, more, want string) {
		t.Helper()
		text := fmt.Sprintf("pin_dir = %q\n[defaults]\npin = true\n%s", filepath.Join(bpffs, "pins"), more)
		writeConfig(t, file, text)
		out, err := program(t.Context(), pair.A.NS, "run --runtime-dir "+run+" --config "+file).CombinedOutput()
		if err == nil {
			t.Errorf("it runs: %s", out)
		}
		wantMatch(t, "error", string(out), want)
	}
	for _, tt := range []struct{ name, user, more, want string }{
		{"no such interface", "root", "[interface.eth0]\n[interface.eth9]\n", `^roce-xdp: datapath: open eth9: .*it has lo, eth0$`},
		{"no such interface, as another user", "nobody", "[interface.eth9]\n", `^roce-xdp: datapath: open eth9: `},
		{"a refused socket", "root", "[interface.eth0]\n" + refused, `zero-copy`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("ROCE_XDP_USER", tt.user)
			fails(t, tt.more, tt.want)
			wantGone(t, filepath.Join(bpffs, "pins"), filepath.Dir(run))
			if xdpAttached(t, pair.A.NS, "eth0") {
				t.Error("an XDP program")
			}
		})
	}
	t.Run("the pins before", func(t *testing.T) {
		d := startDaemon(t, pair.A.NS, run, "--pin --pin-dir "+filepath.Join(bpffs, "pins")+" eth0")
		d.stop(t)
		pinned := filepath.Join(bpffs, "pins", "eth0", "link")
		before := linkID(t, pinned)
		fails(t, "[interface.eth0]\n"+refused, `zero-copy`)
		if now := linkID(t, pinned); now != before || !xdpAttached(t, pair.A.NS, "eth0") {
			t.Errorf("link %d, before %d", now, before)
		}
		if _, err := os.Stat(run); err != nil {
			t.Errorf("the runtime directory: %v", err)
		}
	})
}
