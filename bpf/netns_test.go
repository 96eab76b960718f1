package bpf

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// namespace is a network namespace of the test's own.
type namespace struct {
	t  testing.TB
	ns *os.File
}

// newNamespace makes an empty namespace. It lives as long as its descriptor.
func newNamespace(t testing.TB) *namespace {
	t.Helper()
	var ns *os.File
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		var err error
		ns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	require(t, err)
	t.Cleanup(func() { ns.Close() })
	return &namespace{t: t, ns: ns}
}

// requireNetns skips the test as a whole, before its parts are skipped one by one.
func requireNetns(t testing.TB) {
	t.Helper()
	newNamespace(t)
	require(t, ProbeFrags())
}

// onThread runs f on a thread that ends with it, so that whatever f does to the
// thread's namespaces reaches no other goroutine.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread goes with the goroutine
		done <- f()
	}()
	return <-done
}

// try runs f inside the namespace and gives its error.
func (n *namespace) try(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(n.ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("setns: %w", err)
		}
		return f()
	})
}

// do runs f inside the namespace and fails the test on an error.
func (n *namespace) do(f func() error) {
	n.t.Helper()
	check(n.t, n.try(f))
}

// pair is a veth pair between two namespaces: the program goes to "rx0".
type pair struct {
	rx, tx  *namespace
	ifindex int // of rx0 in rx
	peer    int // of tx0 in tx
}

// queues of a pair; zero means one.
type queues struct{ rxOfRx, txOfTx int }

// newPair makes a veth pair whose ends are up.
func newPair(t testing.TB, q queues) *pair {
	t.Helper()
	p := &pair{rx: newNamespace(t), tx: newNamespace(t)}
	p.rx.do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "rx0"
		attrs.NumRxQueues, attrs.NumTxQueues = max(q.rxOfRx, 1), 1
		veth := &netlink.Veth{
			LinkAttrs: attrs, PeerName: "tx0", PeerNamespace: netlink.NsFd(p.tx.ns.Fd()),
			PeerNumRxQueues: 1, PeerNumTxQueues: uint32(max(q.txOfTx, 1)),
		}
		if err := netlink.LinkAdd(veth); err != nil {
			return fmt.Errorf("make a veth pair: %w", err)
		}
		var err error
		p.ifindex, err = bringUp("rx0")
		return err
	})
	p.tx.do(func() error {
		var err error
		p.peer, err = bringUp("tx0")
		return err
	})
	return p
}

func bringUp(name string) (int, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return 0, err
	}
	return l.Attrs().Index, netlink.LinkSetUp(l)
}

// attach attaches s to rx0.
func (p *pair) attach(s *Steer, m Mode) error {
	return p.rx.try(func() error { return s.Attach(p.ifindex, m) })
}

// device looks at rx0 with the kernel's eyes.
func (p *pair) device() device {
	p.rx.t.Helper()
	var d device
	p.rx.do(func() (err error) {
		d, err = lookupDevice(p.ifindex)
		return err
	})
	return d
}

// send sends the frame n times from tx0.
func (p *pair) send(frame []byte, n int) {
	p.tx.t.Helper()
	p.tx.do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for range n {
			if err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: p.peer}); err != nil {
				return err
			}
		}
		return nil
	})
}

// eventually polls until the condition holds, for some seconds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !condition(); {
		if time.Now().After(deadline) {
			t.Fatalf("did not happen in 10 s: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// mountBPFFS mounts a BPF file system of the test's own.
func mountBPFFS(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	require(t, unix.Mount("bpf", dir, "bpf", 0, ""))
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", errors.Join(err, unix.Unmount(dir, unix.MNT_DETACH)))
		}
	})
	return dir
}
