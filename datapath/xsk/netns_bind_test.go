package xsk_test

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
)

func TestNetnsModeOnVeth(t *testing.T) {
	c := newCable(t, cableConfig{})
	if s := c.socket(0, 0, nil); s.ZeroCopy() {
		t.Error("Auto on veth says zero-copy")
	}
	if s := c.socket(1, 0, &xsk.Options{Mode: xsk.Copy}); s.ZeroCopy() {
		t.Error("Copy says zero-copy")
	}
}

func TestNetnsBindErrors(t *testing.T) {
	c := newCable(t, cableConfig{})
	taken := c.socket(0, 0, nil)
	for _, tc := range []struct {
		name           string
		ifindex, queue int
		opts           *xsk.Options
		want           error
		errno          error
		says           string
	}{
		{"queue taken", c.ifindex(0), 0, nil, xsk.ErrQueueBusy, unix.EBUSY, "share its UMEM"},
		{"queue does not exist", c.ifindex(1), 7, nil, xsk.ErrNoQueue, unix.EINVAL, "ethtool -l"},
		{"interface does not exist", 9999, 0, nil, xsk.ErrNoDevice, unix.ENODEV, "ip link"},
		{"no zero-copy", c.ifindex(1), 0, &xsk.Options{Mode: xsk.ZeroCopy}, xsk.ErrNoZeroCopy, unix.EOPNOTSUPP, "Mode Auto or Copy"},
		{"shared, no zero-copy", c.ifindex(1), 0, &xsk.Options{UMEM: taken.UMEM(), Mode: xsk.ZeroCopy}, xsk.ErrNoZeroCopy, nil, "first socket"},
		{"shared, no multi-buffer", c.ifindex(1), 0, &xsk.Options{UMEM: taken.UMEM(), MultiBuffer: true}, xsk.ErrConfig, nil, "MultiBuffer"},
	} {
		// No t.Run: its goroutine would be outside the network namespace.
		s, err := xsk.NewSocket(tc.ifindex, tc.queue, tc.opts)
		if err == nil {
			s.Close()
			t.Errorf("%s: made a socket", tc.name)
			continue
		}
		var e *xsk.Error
		if !errors.As(err, &e) || !errors.Is(err, tc.want) || e.Ifindex != tc.ifindex || e.Queue != tc.queue {
			t.Errorf("%s: error %v, want *Error with %v", tc.name, err, tc.want)
		}
		if tc.errno != nil && !errors.Is(err, tc.errno) {
			t.Errorf("%s: error %v does not wrap errno %v", tc.name, err, tc.errno)
		}
		if !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: error %q does not say %q", tc.name, err, tc.says)
		}
	}
}

// A failed attempt must not keep the memory registered or the queue taken.
func TestNetnsBindAfterFailure(t *testing.T) {
	c := newCable(t, cableConfig{})
	u, err := xsk.NewUMEM(xsk.UMEMConfig{Frames: 64})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := xsk.NewSocket(c.ifindex(0), 0, &xsk.Options{UMEM: u, Mode: xsk.ZeroCopy}); !errors.Is(err, xsk.ErrNoZeroCopy) {
		t.Fatalf("zero-copy on veth: %v", err)
	}
	s := c.socket(0, 0, &xsk.Options{UMEM: u})
	if err := u.Close(); !errors.Is(err, xsk.ErrInUse) {
		t.Errorf("closing memory in use: %v, want ErrInUse", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := u.Close(); err != nil {
		t.Errorf("closing memory: %v", err)
	}
	if _, err := xsk.NewSocket(c.ifindex(0), 0, &xsk.Options{UMEM: u}); !errors.Is(err, xsk.ErrClosed) {
		t.Errorf("socket on closed memory: %v, want ErrClosed", err)
	}
}

func TestNetnsBindWaitsForQueue(t *testing.T) {
	c := newCable(t, cableConfig{})
	old := c.socket(0, 0, nil)
	closed := make(chan error, 1)
	time.AfterFunc(60*time.Millisecond, func() { closed <- old.Close() })
	s, err := xsk.NewSocket(c.ifindex(0), 0, nil)
	if err != nil {
		t.Fatalf("queue that became free: %v", err)
	}
	defer s.Close()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestNetnsRebind(t *testing.T) {
	c := newCable(t, cableConfig{})
	for range 5 {
		s, err := xsk.NewSocket(c.ifindex(0), 0, &xsk.Options{UMEMConfig: xsk.UMEMConfig{Frames: 64}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNetnsNoBind(t *testing.T) {
	c := newCable(t, cableConfig{})
	s, err := xsk.NewSocket(c.ifindex(0), 0, &xsk.Options{NoBind: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a := newStation(t, s)
	a.port.Submit(a.lay(payload(64, 1)))
	if err := s.Kick(); !errors.Is(err, xsk.ErrGone) || !errors.Is(err, xsk.ErrDown) {
		t.Errorf("Kick before Bind: %v, want ErrGone", err)
	}
	if err := s.Bind(); err != nil {
		t.Fatal(err)
	}
	if err := s.Bind(); err != nil {
		t.Errorf("second Bind: %v", err)
	}
	b := newStation(t, c.socket(1, 0, nil))
	if err := s.Kick(); err != nil {
		t.Fatal(err)
	}
	checkFrame(t, b.recvN(1)[0], payload(64, 1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Bind(); !errors.Is(err, xsk.ErrClosed) {
		t.Errorf("Bind after Close: %v, want ErrClosed", err)
	}
}

// withoutCaps runs f on a thread of its own that lacks the capabilities, in
// the calling thread's network namespace.
func withoutCaps(t *testing.T, f func(), caps ...int) {
	t.Helper()
	ns, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	fail := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with f
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = unix.Capget(&hdr, &data[0])
		}
		for _, c := range caps {
			data[c/32].Effective &^= 1 << (c % 32)
		}
		if err == nil {
			err = unix.Capset(&hdr, &data[0])
		}
		if err == nil {
			f()
		}
		fail <- err
	}()
	if err := <-fail; err != nil {
		t.Fatal(err)
	}
}

func TestNetnsPermission(t *testing.T) {
	c := newCable(t, cableConfig{})
	withoutCaps(t, func() {
		_, err := xsk.NewSocket(c.ifindex(0), 0, nil)
		if !errors.Is(err, xsk.ErrPermission) || !strings.Contains(err.Error(), "CAP_NET_RAW") {
			t.Errorf("error %v, want ErrPermission that names CAP_NET_RAW", err)
		}
	}, unix.CAP_NET_RAW)
}

func TestNetnsMemlock(t *testing.T) {
	c := newCable(t, cableConfig{})
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 64 << 10, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
			t.Error(err)
		}
	}()
	withoutCaps(t, func() {
		_, err := xsk.NewSocket(c.ifindex(0), 0, nil)
		if !errors.Is(err, xsk.ErrMemlock) || !strings.Contains(err.Error(), "LimitMEMLOCK") {
			t.Errorf("error %v, want ErrMemlock that names LimitMEMLOCK", err)
		}
	}, unix.CAP_IPC_LOCK)
}

func TestNetnsTxBudget(t *testing.T) {
	c := newCable(t, cableConfig{})
	s := c.socket(0, 0, &xsk.Options{TxBudget: 64})
	if b := s.TxBudget(); b != 64 && b != 32 {
		t.Fatalf("budget %d, want 64 or, on kernels that cannot be told, 32", b)
	}
	a, b := newStation(t, s), newStation(t, c.socket(1, 0, nil))
	var frames [][]byte
	for i := range 256 {
		frames = append(frames, payload(64, uint64(i)))
	}
	a.send(frames...)
	b.recvN(256)
	st, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if want := uint64(256 / s.TxBudget()); st.Kicks != want && st.Kicks != want+1 {
		t.Errorf("%d calls for 256 frames with a budget of %d", st.Kicks, s.TxBudget())
	}
	if st.KickAgain != st.Kicks-1 {
		t.Errorf("%d of %d calls were answered EAGAIN, want all but the last", st.KickAgain, st.Kicks)
	}
}
