package xsk_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/test/netns"
)

// resources counts what a socket could leave behind.
func resources(t testing.TB) (fds, maps int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		// The runtime and the test keep files of their own.
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && (strings.HasPrefix(to, "socket:") || strings.Contains(to, "eventpoll")) {
			fds++
		}
	}
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return fds, strings.Count(string(b), "socket:")
}

func TestNetnsCloseFreesAll(t *testing.T) {
	c := newCable(t, cableConfig{queues: 2})
	fdsBefore, mapsBefore := resources(t)
	u, err := xsk.NewUMEM(xsk.UMEMConfig{Frames: 64})
	if err != nil {
		t.Fatal(err)
	}
	var socks []*xsk.Socket
	for _, q := range []int{0, 0, 1} {
		s, err := xsk.NewSocket(c.ifindex(0), q, &xsk.Options{UMEM: u})
		if err != nil {
			t.Fatal(err)
		}
		socks = append(socks, s)
	}
	private, err := xsk.NewSocket(c.ifindex(1), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := xsk.NewWaiter(socks...)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(socks, private) {
		if flags, err := unix.FcntlInt(uintptr(s.FD()), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor without FD_CLOEXEC: %#x, %v", flags, err)
		}
	}
	if fds, maps := resources(t); fds != fdsBefore+5 || maps != mapsBefore+4*2+3*2 {
		t.Fatalf("4 sockets on 3 queues and a waiter hold %d descriptors and %d mappings, want 5 and 14", fds-fdsBefore, maps-mapsBefore)
	}
	closers := []interface{ Close() error }{w, socks[0], socks[1], socks[2], u, private}
	for _, c := range append(closers, closers[1:]...) { // twice: Close may be repeated
		if err := c.Close(); err != nil {
			t.Errorf("close %T: %v", c, err)
		}
	}
	if fds, maps := resources(t); fds != fdsBefore || maps != mapsBefore {
		t.Errorf("after Close %d descriptors and %d mappings are left", fds-fdsBefore, maps-mapsBefore)
	}
	useAfterClose(t, private)
}

// Packet memory must go too. The addresses may be used anew, so the size of
// the address space is what tells.
func TestNetnsCloseFreesMemory(t *testing.T) {
	c := newCable(t, cableConfig{})
	before := addressSpace(t)
	const rounds, size = 20, xsk.DefaultFrames * 4096
	for range rounds {
		s, err := xsk.NewSocket(c.ifindex(0), 0, &xsk.Options{UMEMConfig: xsk.UMEMConfig{FrameSize: 4096}})
		if err != nil {
			t.Fatal(err)
		}
		if grown := addressSpace(t) - before; grown < size {
			t.Fatalf("address space grew by %d for a memory of %d bytes", grown, size)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if grown := addressSpace(t) - before; grown > rounds*size/4 {
		t.Errorf("address space grew by %d bytes over %d sockets of %d bytes", grown, rounds, size)
	}
}

// addressSpace returns the size of the process's address space in bytes.
func addressSpace(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var pages int
	if _, err := fmt.Sscan(string(b), &pages); err != nil {
		t.Fatal(err)
	}
	return pages * unix.Getpagesize()
}

// useAfterClose calls everything: nothing may reach unmapped memory.
func useAfterClose(t *testing.T, s *xsk.Socket) {
	t.Helper()
	d := []xsk.Desc{{Len: 64}}
	addrs := []uint64{0}
	if s.Fill(addrs)+s.Receive(d)+s.Submit(d)+s.Complete(addrs) != 0 {
		t.Error("a closed socket took or gave something")
	}
	if s.RxAvail()+s.TxFree()+s.TxPending()+s.FillFree()+s.CompAvail() != 0 {
		t.Error("a closed socket has places")
	}
	if s.Frame(d[0]) != nil || s.FD() != -1 || s.NeedFillWakeup() {
		t.Error("a closed socket has memory, a descriptor or a wish")
	}
	if err := s.Kick(); err != nil {
		t.Errorf("Kick of nothing: %v", err)
	}
	for name, err := range map[string]error{
		"WakeFill": s.WakeFill(),
		"Stats":    second(s.Stats()),
		"Poll":     third(s.Poll(time.Millisecond)),
	} {
		if !errors.Is(err, xsk.ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
}

func second[A any](_ A, err error) error        { return err }
func third[A, B any](_ A, _ B, err error) error { return err }

// A failed NewSocket must leave nothing either.
func TestNetnsFailureFreesAll(t *testing.T) {
	c := newCable(t, cableConfig{})
	fdsBefore, mapsBefore := resources(t)
	for range 3 {
		if s, err := xsk.NewSocket(c.ifindex(0), 99, nil); err == nil {
			s.Close()
			t.Fatal("made a socket on queue 99")
		}
	}
	if fds, maps := resources(t); fds != fdsBefore || maps != mapsBefore {
		t.Errorf("failures left %d descriptors and %d mappings", fds-fdsBefore, maps-mapsBefore)
	}
}

func TestNetnsNothingAllocates(t *testing.T) {
	c := newCable(t, cableConfig{})
	a, b := newStation(t, c.socket(0, 0, nil)), newStation(t, c.socket(1, 0, nil))
	send := append(a.lay(payload(64, 1)), a.lay(payload(64, 2))...)
	descs := make([]xsk.Desc, 8)
	addrs := make([]uint64, 8)
	if n := testing.AllocsPerRun(200, func() {
		if a.port.Submit(send) != 2 {
			t.Fatal("transmit ring is full")
		}
		if err := a.port.Kick(); err != nil {
			t.Fatal(err)
		}
		for got := 0; got < 2; {
			n := b.port.Receive(descs)
			for i := range descs[:n] {
				addrs[i] = descs[i].Addr
				_ = b.port.UMEM().Frame(descs[i])
			}
			b.pool.PutAll(addrs[:n])
			b.port.Fill(addrs[:b.pool.Get(addrs[:n])])
			got += n
		}
		for got := 0; got < 2; {
			got += a.port.Complete(addrs)
		}
		if b.port.NeedFillWakeup() {
			if err := b.port.WakeFill(); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations for two frames there", n)
	}
}

// Preemption signals interrupt system calls. Frames must get through, and
// Poll must keep its time, under a storm of them.
func TestNetnsInterrupted(t *testing.T) {
	c := newCable(t, cableConfig{})
	sa := c.socket(0, 0, nil)
	a, b := newStation(t, sa), newStation(t, c.socket(1, 0, nil))
	tid := unix.Gettid() // the thread is locked to this goroutine
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG) // what the scheduler sends to preempt
			runtime.Gosched()
			time.Sleep(20 * time.Microsecond)
		}
	}()
	defer func() { stop.Store(true); <-done }()
	var frames [][]byte
	for i := range 128 {
		frames = append(frames, payload(64, uint64(i)))
	}
	for range 20 {
		a.send(frames...)
		checkFrames(t, b.recvN(len(frames)), frames)
		a.reap(len(frames))
	}
	start := time.Now()
	if rx, _, err := sa.Poll(30 * time.Millisecond); rx != 0 || err != nil {
		t.Errorf("Poll: %d received, %v", rx, err)
	}
	if d := time.Since(start); d < 30*time.Millisecond || d > 3*time.Second {
		t.Errorf("Poll took %v, want 30ms", d)
	}
}

func TestNetnsPoll(t *testing.T) {
	c := newCable(t, cableConfig{})
	sa, sb := c.socket(0, 0, nil), c.socket(1, 0, nil)
	a, b := newStation(t, sa), newStation(t, sb)
	if rx, comp, err := sa.Poll(0); rx != 0 || comp != 0 || err != nil {
		t.Errorf("Poll(0) of nothing: %d, %d, %v", rx, comp, err)
	}
	a.send(payload(64, 1))
	if rx, comp, err := sa.Poll(-1); rx != 0 || comp != 1 || err != nil {
		t.Errorf("Poll for a completion: %d, %d, %v", rx, comp, err)
	}
	a.reap(1)
	if rx, comp, err := sb.Poll(-1); rx != 1 || comp != 0 || err != nil {
		t.Errorf("Poll for a frame: %d, %d, %v", rx, comp, err)
	}
	b.recv()
	sent := make(chan struct{})
	time.AfterFunc(5*time.Millisecond, func() { b.send(payload(64, 2)); close(sent) })
	if rx, _, err := sa.Poll(5 * time.Second); rx != 1 || err != nil {
		t.Errorf("Poll for a later frame: %d, %v", rx, err)
	}
	<-sent
}

func TestNetnsBusyPoll(t *testing.T) {
	c := newCable(t, cableConfig{})
	opts := &xsk.Options{BusyPoll: xsk.BusyPoll{Usecs: 10}}
	sa, sb := c.socket(0, 0, opts), c.socket(1, 0, opts)
	a, b := newStation(t, sa), newStation(t, sb)
	if usecs, err := unix.GetsockoptInt(sa.FD(), unix.SOL_SOCKET, unix.SO_BUSY_POLL); err != nil || usecs != 10 {
		t.Errorf("kernel polls for %d microseconds (%v), want 10", usecs, err)
	}
	if !sb.NeedFillWakeup() {
		t.Error("a busy polling socket does not ask for calls")
	}
	a.send(payload(64, 1))
	var got [][]byte
	eventually(t, "a frame arrives", func() bool {
		if err := sb.WakeFill(); err != nil {
			t.Fatal(err)
		}
		got = append(got, b.recv()...)
		return len(got) != 0
	})
	checkFrame(t, got[0], payload(64, 1))
	withoutCaps(t, func() {
		opts := &xsk.Options{BusyPoll: xsk.BusyPoll{Usecs: 1000, Budget: 512}, NoBind: true}
		if s, err := xsk.NewSocket(c.ifindex(0), 0, opts); !errors.Is(err, xsk.ErrPermission) || !strings.Contains(err.Error(), "CAP_NET_ADMIN") {
			if err == nil {
				s.Close()
			}
			t.Errorf("error %v, want ErrPermission that names CAP_NET_ADMIN", err)
		}
	}, unix.CAP_NET_ADMIN)
}

// Packet memory is in huge pages, or in ordinary ones where there are not enough, and
// says so.
func TestNetnsHugePages(t *testing.T) {
	pages := netns.RaiseHugePages(t, 1)
	for name, huge := range map[string]bool{"enough": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			if !huge {
				defer pages.Take(pages.Free())()
			}
			before := pages.Free()
			// The kernel lets go of them a moment after the socket is closed.
			t.Cleanup(func() {
				for end := time.Now().Add(10 * time.Second); pages.Free() < before; time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("%d huge pages are free afterwards, %d were", pages.Free(), before)
					}
				}
			})
			c := newCable(t, cableConfig{})
			opts := &xsk.Options{UMEMConfig: xsk.UMEMConfig{Frames: 700, FrameSize: 2048, HugePages: true}}
			sa, sb := c.socket(0, 0, opts), c.socket(1, 0, nil)
			if got := sa.UMEM().HugePages(); got != huge {
				t.Errorf("HugePages says %v with %d huge pages free", got, before)
			}
			if took := before - pages.Free(); (took == 1) != huge {
				t.Errorf("it took %d huge pages", took)
			}
			a, b := newStation(t, sa), newStation(t, sb)
			a.send(payload(1000, 1))
			checkFrame(t, b.recvN(1)[0], payload(1000, 1))
			b.send(payload(1000, 2))
			checkFrame(t, a.recvN(1)[0], payload(1000, 2))
		})
	}
}
