package verbs_test

import (
	"net"
	"sync"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/internal/shm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// fakeDaemon answers as a test wants. It has one client.
type fakeDaemon struct {
	t    *testing.T
	path string
	done sync.WaitGroup

	mu      sync.Mutex
	replies map[proto.Op]fakeReply
	asked   []proto.Op
}

// fakeReply is the body of a reply, or a status, and its descriptors.
type fakeReply struct {
	body   any
	status proto.Status
	fds    []int
}

// newFakeDaemon makes a daemon that offers a device fake0 with one worker, and memory
// of one segment of 64 KiB with number 1.
func newFakeDaemon(t *testing.T) *fakeDaemon {
	t.Helper()
	dir := t.TempDir()
	t.Setenv(session.DirVariable, dir)
	d := &fakeDaemon{t: t, path: session.SocketPath(dir), replies: map[proto.Op]fakeReply{}}
	memory := func(n int, o shm.Options) *shm.Memory {
		m, err := shm.Create("fake", n, o)
		d.ok(err)
		t.Cleanup(func() { _ = m.Close() })
		return m
	}
	states, bells, segment := memory(4096, shm.Options{ReadOnly: true}), memory(4096, shm.Options{}), memory(64<<10, shm.Options{})
	wake, err := shm.NewEventfd()
	d.ok(err)
	events, theirs, err := shm.Pair()
	d.ok(err)
	notify, note, err := shm.NewNotifier()
	d.ok(err)
	t.Cleanup(func() {
		for _, c := range []interface{ Close() error }{wake, events, theirs, notify, note} {
			_ = c.Close()
		}
	})
	_, err = queue.Format(segment.Bytes(), 16, queue.CQESize)
	d.ok(err)
	_, err = queue.Format(segment.Bytes()[8192:], 16, queue.SendElemSize(1, 0))
	d.ok(err)

	d.set(proto.OpHello, fakeReply{body: &proto.HelloReply{Version: proto.Version, Devices: 1}})
	d.set(proto.OpOpen, fakeReply{
		body: &proto.OpenReply{Workers: 1, BellStride: 4096, StateStride: 128, BellSlots: 64},
		fds:  []int{int(theirs.Fd()), states.FD(), bells.FD(), wake.FD()},
	})
	d.set(proto.OpMapSegment, fakeReply{body: &proto.MapSegmentReply{Size: 64 << 10}, fds: []int{segment.FD()}})
	d.set(proto.OpAllocPD, fakeReply{body: &proto.PD{PD: 1}})
	d.set(proto.OpCreateCQ, fakeReply{body: &proto.CQReply{Handle: 2, Ring: proto.Span{Segment: 1, Size: 8192}}, fds: []int{int(note.Fd())}})
	for _, op := range []proto.Op{proto.OpDeallocPD, proto.OpDestroyCQ, proto.OpDestroyQP, proto.OpDestroySRQ, proto.OpFreeBuffer} {
		d.set(op, fakeReply{body: &proto.Empty{}})
	}
	l, err := shm.Listen(d.path, 0o600)
	d.ok(err)
	d.done.Go(func() { d.serve(l) })
	t.Cleanup(func() { _ = l.Close(); d.done.Wait() })
	return d
}

func (d *fakeDaemon) ok(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *fakeDaemon) set(op proto.Op, r fakeReply) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replies[op] = r
}

// wasAsked reports whether a request came, and forgets it.
func (d *fakeDaemon) wasAsked(op proto.Op) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, o := range d.asked {
		if o == op {
			d.asked = append(d.asked[:i], d.asked[i+1:]...)
			return true
		}
	}
	return false
}

func (d *fakeDaemon) serve(l *net.UnixListener) {
	uc, err := l.AcceptUnix()
	if err != nil {
		return
	}
	c, err := shm.NewConn(uc)
	if err != nil {
		d.t.Error(err)
		return
	}
	defer c.Close()
	buf := make([]byte, proto.MaxMessage)
	for {
		n, fds, err := c.Recv(buf)
		fds.Close()
		if err != nil {
			return
		}
		h, _, err := proto.Parse(buf[:n])
		if err != nil {
			d.t.Error(err)
			return
		}
		if err := d.answer(c, h); err != nil {
			return
		}
	}
}

func (d *fakeDaemon) answer(c *shm.Conn, h proto.Header) error {
	d.mu.Lock()
	r, known := d.replies[h.Op]
	d.asked = append(d.asked, h.Op)
	d.mu.Unlock()
	if !known {
		r.status = proto.StatusProtocol
	}
	if r.status != proto.StatusOK {
		r.body, r.fds = &proto.Failure{}, nil
	}
	h.Status, h.FDs = r.status, uint16(len(r.fds))
	b, err := proto.Append(nil, h, r.body)
	if err != nil {
		return err
	}
	return c.Send(b, r.fds...)
}

// open opens the fake's device.
func (d *fakeDaemon) open() *verbs.Context {
	d.t.Helper()
	dev, err := verbs.Open("fake0")
	d.ok(err)
	d.t.Cleanup(func() { _ = dev.Close() })
	return dev
}
