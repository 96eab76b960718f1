package session

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// A program that may open no more files gets the reply without its descriptor, so that
// it can give back what was made, and goes on.
func TestReplyWithoutRoomForDescriptors(t *testing.T) {
	d, s := start(t)
	m, err := shm.Create("test", 4096, shm.Options{})
	ok(t, err)
	t.Cleanup(func() { ok(t, m.Close()) })
	a := answer{body: &proto.CQReply{Handle: 5}, fds: []int{m.FD()}}
	d.answers(proto.OpCreateCQ, func(proto.Header, []byte) answer { return a })
	d.reply(proto.OpDestroyCQ, nil)

	highest, err := unix.FcntlInt(uintptr(m.FD()), unix.F_DUPFD_CLOEXEC, 0)
	ok(t, err)
	ok(t, unix.Close(highest))
	var old unix.Rlimit
	ok(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	ok(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(highest), Max: old.Max}))
	var rep proto.CQReply
	fds, err := s.Call(t.Context(), proto.OpCreateCQ, &proto.CreateCQ{}, &rep)
	ok(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	if !errors.Is(err, shm.ErrMissing) || fds != nil || rep.Handle != 5 {
		t.Errorf("%d descriptors, handle %d, %v", len(fds), rep.Handle, err)
	}
	ok(t, s.Do(proto.OpDestroyCQ, &proto.Handle{Handle: 5}, nil))
}
