package serve

import (
	"errors"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// faulting is a page of memory at which whoever touches it waits, in the kernel, until
// provide is called: as at memory of a file system that does not answer.
// userfaultfd(2) has no wrapper: its requests point to structures.
type faulting struct {
	page []byte
	fd   int
}

// Requests of linux/userfaultfd.h, and their structures.
const (
	uffdioAPI      = 0xc018aa3f
	uffdioRegister = 0xc020aa00
	uffdioZeroPage = 0xc020aa04

	uffdAPI             = 0xaa
	registerModeMissing = 1
)

type uffdAPIRequest struct{ api, features, ioctls uint64 }

type uffdRange struct{ start, len, mode, out uint64 }

func newFaulting(t *testing.T) *faulting {
	t.Helper()
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0)
	switch {
	case errors.Is(errno, unix.EPERM):
		netns.Missing(t, "root", "userfaultfd: "+errno.Error())
	case errno != 0:
		netns.Missing(t, "userfaultfd", errno.Error())
	}
	f := &faulting{fd: int(fd)}
	t.Cleanup(func() { _ = unix.Close(f.fd) }) // which ends all waits
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(page) })
	f.page = page
	api := uffdAPIRequest{api: uffdAPI}
	f.ioctl(t, uffdioAPI, unsafe.Pointer(&api))
	r := f.all()
	r.mode = registerModeMissing
	f.ioctl(t, uffdioRegister, unsafe.Pointer(&r))
	return f
}

func (f *faulting) all() uffdRange { return uffdRange{start: f.addr(), len: uint64(len(f.page))} }

func (f *faulting) addr() uint64 { return uint64(uintptr(unsafe.Pointer(&f.page[0]))) }

// provide gives the page, and lets go who waits for it.
func (f *faulting) provide(t *testing.T) {
	t.Helper()
	r := f.all()
	f.ioctl(t, uffdioZeroPage, unsafe.Pointer(&r))
}

func (f *faulting) ioctl(t *testing.T, request uintptr, arg unsafe.Pointer) {
	t.Helper()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(f.fd), request, uintptr(arg)); errno != 0 {
		t.Fatalf("userfaultfd: request %#x: %v", request, errno)
	}
}
