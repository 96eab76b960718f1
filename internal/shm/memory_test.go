package shm

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func dup(t testing.TB, fd int) int {
	t.Helper()
	return must[int](t)(unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0))
}

func TestMemoryIsShared(t *testing.T) {
	noLeak(t)
	for _, size := range []int{1, pageSize, pageSize + 1, HugePage} {
		m := must[*Memory](t)(Create("test", size, Options{}))
		whole := roundUp(size, pageSize)
		if len(m.Bytes()) != whole {
			t.Errorf("%d bytes for %d", len(m.Bytes()), size)
		}
		peer := must[*Memory](t)(Open(dup(t, m.FD()), uint64(whole), false))
		peer.Bytes()[whole-1] = 42
		if m.Bytes()[whole-1] != 42 {
			t.Error("what one side writes the other does not see")
		}
		Lock(peer.Bytes())
		Unlock(peer.Bytes())
		if err := unix.Ftruncate(m.FD(), 0); !errors.Is(err, unix.EPERM) {
			t.Errorf("truncated: %v", err)
		}
		if err := unix.Ftruncate(m.FD(), int64(2*whole)); !errors.Is(err, unix.EPERM) {
			t.Errorf("enlarged: %v", err)
		}
		again := must[*Memory](t)(OpenWhole(dup(t, m.FD()), true))
		if len(again.Bytes()) != whole || again.Bytes()[whole-1] != 42 {
			t.Errorf("%d bytes of %d", len(again.Bytes()), whole)
		}
		ok(t, again.Close())
		ok(t, peer.Close())
		ok(t, m.Close())
		ok(t, m.Close())
	}
	for _, size := range []int{0, -1, 1<<46 + 1} {
		if _, err := Create("test", size, Options{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if _, err := Create("test", pageSize, Options{Huge: true}); !errors.Is(err, ErrInvalid) {
		t.Errorf("part of a huge page: %v", err)
	}
}

func TestMemoryOnlyItsMakerWrites(t *testing.T) {
	noLeak(t)
	m := must[*Memory](t)(Create("test", pageSize, Options{ReadOnly: true}))
	defer m.Close()
	m.Bytes()[0] = 7
	if _, err := Open(dup(t, m.FD()), uint64(pageSize), false); !errors.Is(err, unix.EPERM) {
		t.Errorf("mapped to be written: %v", err)
	}
	peer := must[*Memory](t)(Open(dup(t, m.FD()), uint64(pageSize), true))
	defer peer.Close()
	if peer.Bytes()[0] != 7 {
		t.Error("the peer does not see it")
	}
	if _, err := unix.Pwrite(m.FD(), []byte{1}, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("written: %v", err)
	}
}

func TestDescriptorsOfTheWrongKind(t *testing.T) {
	noLeak(t)
	dir := t.TempDir()
	ok(t, os.Mkdir(filepath.Join(dir, "1"), 0o700))
	plain := must[*os.File](t)(os.OpenFile(filepath.Join(dir, "1", "mem"), os.O_RDWR|os.O_CREATE, 0o600))
	defer plain.Close()
	ok(t, plain.Truncate(int64(pageSize)))
	open := func(name string, flags int) *os.File {
		f := must[*os.File](t)(os.OpenFile(name, flags, 0))
		t.Cleanup(func() { f.Close() })
		return f
	}
	mem := must[*Memory](t)(Create("test", pageSize, Options{}))
	defer mem.Close()
	loose := must[int](t)(unix.MemfdCreate("test", unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC))
	defer unix.Close(loose)
	ok(t, unix.Ftruncate(loose, int64(pageSize)))
	event := must[*Eventfd](t)(NewEventfd())
	defer event.Close()
	size := func(n int) func(int) error { return func(fd int) error { return CheckMemfd(fd, uint64(n)) } }

	for _, tc := range []struct {
		name  string
		fd    int
		check func(int) error
		ok    bool
	}{
		{"memfd", mem.FD(), size(pageSize), true},
		{"memfd of another size", mem.FD(), size(2 * pageSize), false},
		{"memfd of no size", mem.FD(), size(0), false},
		{"memfd that can shrink", loose, size(pageSize), false},
		{"file as a memfd", int(plain.Fd()), size(pageSize), false},
		{"eventfd as a memfd", event.FD(), size(pageSize), false},
		{"nothing as a memfd", 1 << 20, size(pageSize), false},
		{"own memory", int(open("/proc/self/mem", os.O_RDWR).Fd()), CheckProcMem, true},
		{"own memory by its thread", int(open("/proc/thread-self/mem", os.O_RDWR).Fd()), CheckProcMem, true},
		{"own memory to be read", int(open("/proc/self/mem", os.O_RDONLY).Fd()), CheckProcMem, false},
		{"own memory to be named", int(open("/proc/self/mem", unix.O_PATH).Fd()), CheckProcMem, false},
		{"another file of /proc", int(open("/proc/self/maps", os.O_RDONLY).Fd()), CheckProcMem, false},
		{"a file called like it", int(plain.Fd()), CheckProcMem, false},
		{"memfd as memory", mem.FD(), CheckProcMem, false},
		{"nothing as memory", 1 << 20, CheckProcMem, false},
		{"eventfd", event.FD(), CheckEventfd, true},
		{"memfd as an eventfd", mem.FD(), CheckEventfd, false},
		{"nothing as an eventfd", 1 << 20, CheckEventfd, false},
	} {
		err := tc.check(tc.fd)
		if tc.ok != (err == nil) || err != nil && !errors.Is(err, ErrDescriptor) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if _, err := Open(dup(t, int(plain.Fd())), uint64(pageSize), false); !errors.Is(err, ErrDescriptor) {
		t.Error(err)
	}
	if _, err := OpenEventfd(dup(t, int(plain.Fd()))); !errors.Is(err, ErrDescriptor) {
		t.Error(err)
	}
	if _, err := FromFD(dup(t, int(plain.Fd()))); !errors.Is(err, ErrDescriptor) {
		t.Error(err)
	}
}
