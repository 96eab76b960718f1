package serve

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// scarce has f run with descriptors below a number only.
func scarce(t *testing.T, below uint64, f func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: below, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	}()
	f()
}

// lowest is the lowest descriptor that is free.
func lowest(t *testing.T) uint64 {
	t.Helper()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return uint64(f.Fd())
}

// A client that comes when the daemon has no descriptor left, or runs out of them at any
// step, is refused, and only that.
func TestOutOfDescriptors(t *testing.T) {
	r := newRig(t, Config{})
	witness := r.open(t)
	for _, tt := range []struct {
		name string
		op   proto.Op
		req  any
		rep  any
		open bool // the device is
	}{
		{"OPEN", proto.OpOpen, openOf("mem0"), &proto.OpenReply{}, false},
		{"CREATE_CQ", proto.OpCreateCQ, &proto.CreateCQ{Entries: 4}, &proto.CQReply{}, true},
		{"ALLOC_BUFFER", proto.OpAllocBuffer, &proto.AllocBuffer{Size: 4096}, &proto.AllocBufferReply{}, true},
		{"CM_OPEN", proto.OpCMOpen, &proto.Empty{}, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const enough = 64 // descriptors more than the lowest that is free
			refused, done := 0, false
			for room, try := 0, 0; !done && room < enough; room++ {
				w := r.greet(t)
				if tt.open {
					w.must(proto.OpOpen, openOf("mem0"), &proto.OpenReply{})
					w.fds.Close()
				}
				var err error
				below := lowest(t) + uint64(room)
				scarce(t, below, func() { err = w.call(tt.op, tt.req, tt.rep) })
				var f *failure
				switch {
				case err == nil:
					done = true
				case errors.As(err, &f):
					refused++
				case !errors.Is(err, shm.ErrMissing): // it was this end that had no room
					t.Fatalf("with room below descriptor %d: %v", below, err)
				}
				w.close()
				if done && refused == 0 && try < enough {
					// What an earlier session had was freed just then: there was room all the same.
					done, room, try = false, -1, try+1
				}
			}
			if !done || refused == 0 {
				t.Errorf("refused %d times, done: %v", refused, done)
			}
			witness.must(proto.OpQueryDevice, &proto.Empty{}, &proto.DeviceAttr{})
		})
	}
}

// A user has as many descriptors as are left for others, whatever others have.
func TestDescriptorsAreShared(t *testing.T) {
	const anna, ben = 1, 2
	d := &descriptors{room: 100, of: map[uint32]int{}}
	all := func(uid uint32) (n int) {
		for d.take(uid) == nil {
			n++
		}
		return n
	}
	if n := all(anna); n != 50 {
		t.Errorf("the first has %d", n)
	}
	if n := all(ben); n != 25 {
		t.Errorf("the second has %d", n)
	}
	if err := d.take(ben); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "the 25 completion queues of this user") {
		t.Errorf("one more: %v", err)
	}
	d.give(anna, 50)
	if n := all(ben); n != 25 {
		t.Errorf("without the first, the second has %d more", n)
	}
	d.give(ben, 50)
	if d.used != 0 || len(d.of) != 0 {
		t.Errorf("%d are used, by %v", d.used, d.of)
	}
}

// Completion queues of a user, on all his connections, leave descriptors for others, and
// give theirs back when they are destroyed, not made after all, or go with a client.
func TestQueuesOfAUserAreBounded(t *testing.T) {
	r := newRig(t, Config{})
	room := func(n int) {
		r.srv.files.mu.Lock()
		defer r.srv.files.mu.Unlock()
		r.srv.files.room = n
	}
	room(10)
	a, b := r.open(t), r.open(t)
	var last proto.CQReply
	for i := range 5 {
		[]*raw{a, b}[i%2].must(proto.OpCreateCQ, &proto.CreateCQ{Entries: 1}, &last) // the last is a's
	}
	a.refused(proto.StatusLimit, proto.OpCreateCQ, &proto.CreateCQ{Entries: 1})
	b.refused(proto.StatusLimit, proto.OpCreateCQ, &proto.CreateCQ{Entries: 1})
	a.must(proto.OpDestroyCQ, &proto.Handle{Handle: last.Handle}, nil)
	room(100)
	refused := false
	for try := 0; !refused && try < 20; try++ {
		var q proto.CQReply
		scarce(t, lowest(t), func() { refused = b.call(proto.OpCreateCQ, &proto.CreateCQ{Entries: 1}, &q) != nil })
		if !refused { // something was freed just then
			b.must(proto.OpDestroyCQ, &proto.Handle{Handle: q.Handle}, nil)
		}
	}
	if !refused {
		t.Error("there was a descriptor left each time")
	}
	room(10)
	b.must(proto.OpCreateCQ, &proto.CreateCQ{Entries: 1}, &proto.CQReply{})
	b.refused(proto.StatusLimit, proto.OpCreateCQ, &proto.CreateCQ{Entries: 1})
	b.close()
	waitFor(t, "the end of the client", func() bool { return len(r.srv.Snapshot("")) == 1 })
	for range 3 {
		a.must(proto.OpCreateCQ, &proto.CreateCQ{Entries: 1}, &proto.CQReply{})
	}
	a.refused(proto.StatusLimit, proto.OpCreateCQ, &proto.CreateCQ{Entries: 1})
}
