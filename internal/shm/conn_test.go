package shm

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/proto"
)

// pair are two ends of a connection.
func pair(t testing.TB) (a, b *Conn) {
	t.Helper()
	a, f, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	fd := dup(t, int(f.Fd()))
	ok(t, f.Close())
	b = must[*Conn](t)(FromFD(fd))
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func inode(t testing.TB, fd int) uint64 {
	t.Helper()
	var st unix.Stat_t
	ok(t, unix.Fstat(fd, &st))
	return st.Ino
}

func TestConnCarriesMessagesAndDescriptors(t *testing.T) {
	noLeak(t)
	a, b := pair(t)
	m := must[*Memory](t)(Create("test", pageSize, Options{}))
	defer m.Close()
	buf := make([]byte, proto.MaxMessage)
	for _, tc := range []struct {
		name string
		n    int
		fds  int
		send func([]byte, ...int) error
	}{
		{"a byte", 1, 0, a.Send},
		{"the longest", proto.MaxMessage, 0, a.Send},
		{"with a descriptor", 16, 1, a.Send},
		{"with as many as go", 16, proto.MaxFDs, a.Send},
		{"without waiting", 16, 2, a.TrySend},
	} {
		packet := slices.Repeat([]byte{byte(tc.n)}, tc.n)
		ok(t, tc.send(packet, slices.Repeat([]int{m.FD()}, tc.fds)...))
		n, fds, err := b.Recv(buf)
		if err != nil || !slices.Equal(buf[:n], packet) || len(fds) != tc.fds {
			t.Errorf("%s: %d bytes, %d descriptors, %v", tc.name, n, len(fds), err)
		}
		for _, fd := range fds {
			flags := must[int](t)(unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0))
			if inode(t, fd) != inode(t, m.FD()) || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("%s: another file, or one that programs inherit", tc.name)
			}
		}
		if len(fds) > 0 {
			ok(t, unix.Close(fds.Take(0)))
		}
		fds.Close()
	}
}

// sendRaw sends what Send refuses to.
func sendRaw(t testing.TB, c *Conn, b []byte, fds []int) {
	t.Helper()
	var serr error
	ok(t, c.rc.Control(func(fd uintptr) { serr = unix.Sendmsg(int(fd), b, unix.UnixRights(fds...), nil, 0) }))
	ok(t, serr)
}

func TestConnRefuses(t *testing.T) {
	noLeak(t)
	a, b := pair(t)
	m := must[*Memory](t)(Create("test", pageSize, Options{}))
	defer m.Close()
	for _, send := range []func([]byte, ...int) error{a.Send, a.TrySend} {
		for name, err := range map[string]error{
			"nothing":              send(nil),
			"too long":             send(make([]byte, proto.MaxMessage+1)),
			"too many descriptors": send([]byte{1}, make([]int, proto.MaxFDs+1)...),
		} {
			if !errors.Is(err, ErrPacket) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	buf := make([]byte, proto.MaxMessage)
	before := descriptors(t)
	for name, p := range map[string]struct{ bytes, fds int }{
		"a packet that is too long":  {proto.MaxMessage + 1, 3},
		"one with many descriptors":  {16, proto.MaxFDs + 1},
		"one with the most there is": {16, maxRights},
	} {
		sendRaw(t, a, make([]byte, p.bytes), slices.Repeat([]int{m.FD()}, p.fds))
		if _, fds, err := b.Recv(buf); !errors.Is(err, ErrPacket) || fds != nil {
			t.Errorf("%s: %v", name, err)
		}
		if after := descriptors(t); after != before {
			t.Errorf("%s: %d descriptors before, %d after", name, before, after)
		}
	}
	ok(t, a.Send([]byte{1}))
	if _, _, err := b.Recv(buf); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// A process that may have no more files learns of the packet all the same.
func TestConnWithoutRoomForDescriptors(t *testing.T) {
	noLeak(t)
	a, b := pair(t)
	m := must[*Memory](t)(Create("test", pageSize, Options{}))
	defer m.Close()
	ok(t, a.Send([]byte{1, 2}, m.FD(), m.FD(), m.FD()))
	var old unix.Rlimit
	ok(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	highest := dup(t, m.FD())
	ok(t, unix.Close(highest))
	ok(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(highest + 1), Max: old.Max}))
	n, fds, err := b.Recv(make([]byte, 16))
	ok(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	if n != 2 || fds != nil || !errors.Is(err, ErrMissing) {
		t.Errorf("%d bytes, %d descriptors, %v", n, len(fds), err)
	}
}

func TestConnFull(t *testing.T) {
	a, b := pair(t)
	sent := 0
	for err := error(nil); !errors.Is(err, ErrFull); sent++ {
		if err = a.TrySend(make([]byte, 1024)); err != nil && !errors.Is(err, ErrFull) || sent > 100_000 {
			t.Fatal(sent, err)
		}
	}
	ok(t, a.SetWriteDeadline(time.Now().Add(time.Millisecond)))
	if err := a.Send([]byte{1}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	if _, _, err := b.Recv(make([]byte, 1024)); err != nil {
		t.Error(err)
	}
	ok(t, a.TrySend([]byte{1}))
}

func TestConnEnds(t *testing.T) {
	noLeak(t)
	a, b := pair(t)
	done := make(chan error, 1)
	go func() {
		_, _, err := b.Recv(make([]byte, 16))
		done <- err
	}()
	ok(t, a.Close())
	ok(t, a.Close())
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("the peer has closed: %v", err)
	}
	for name, err := range map[string]error{
		"send to nobody": b.Send([]byte{1}), "try it": b.TrySend([]byte{1}), "send on a closed one": a.Send([]byte{1}), "or try": a.TrySend([]byte{1}),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	go func() {
		_, _, err := b.Recv(make([]byte, 16))
		done <- err
	}()
	ok(t, b.Close())
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("we have closed: %v", err)
	}
}

func TestListenAndDial(t *testing.T) {
	noLeak(t)
	path := filepath.Join(t.TempDir(), "verbs.sock")
	l := must[*net.UnixListener](t)(Listen(path, 0o600))
	if fi := must[os.FileInfo](t)(os.Stat(path)); fi.Mode().Perm() != 0o600 {
		t.Error(fi.Mode())
	}
	c := must[*Conn](t)(Dial(path))
	defer c.Close()
	s := must[*Conn](t)(NewConn(must[*net.UnixConn](t)(l.AcceptUnix())))
	defer s.Close()
	cred := must[Cred](t)(s.Cred())
	groups := must[[]int](t)(os.Getgroups())
	if cred.PID != os.Getpid() || cred.UID != uint32(os.Getuid()) || cred.GID != uint32(os.Getgid()) || len(cred.Groups) != len(groups) {
		t.Errorf("%+v, groups are %v", cred, groups)
	}
	ok(t, c.Send([]byte{5}))
	buf := make([]byte, 16)
	if n, _, err := s.Recv(buf); err != nil || n != 1 || buf[0] != 5 {
		t.Error(n, err)
	}
	if _, err := Listen(path, 0o600); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a second listener: %v", err)
	}

	// A daemon that was killed leaves its socket behind.
	l.SetUnlinkOnClose(false)
	ok(t, l.Close())
	if _, err := Dial(path); !errors.Is(err, unix.ECONNREFUSED) {
		t.Error(err)
	}
	l = must[*net.UnixListener](t)(Listen(path, 0o666))
	ok(t, l.Close())
	if _, err := Dial(path); !errors.Is(err, unix.ENOENT) {
		t.Error(err)
	}
	ok(t, os.WriteFile(path, nil, 0o600))
	if _, err := Listen(path, 0o600); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a file is there: %v", err)
	}
}

func TestConnIsOfPackets(t *testing.T) {
	p := must[[2]int](t)(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	defer unix.Close(p[1])
	if _, err := FromFD(p[0]); !errors.Is(err, ErrDescriptor) {
		t.Error(err)
	}
}

// A descriptor that a program has no room to duplicate is not one of the wrong kind.
func TestFromFDWithoutRoom(t *testing.T) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[1])
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	_, err = FromFD(p[0])
	if rerr := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); rerr != nil {
		t.Fatal(rerr)
	}
	if !errors.Is(err, ErrMissing) || errors.Is(err, ErrDescriptor) {
		t.Errorf("%v, want ErrMissing", err)
	}
	if n, err := unix.Read(p[1], make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("the descriptor is still open: %d, %v", n, err)
	}
}
