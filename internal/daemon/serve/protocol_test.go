package serve

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/proto"
)

// packet is a message as a test wants it.
func packet(t *testing.T, h proto.Header, body any) []byte {
	t.Helper()
	b, err := proto.Append(nil, h, body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What is no message, or comes before HELLO, ends the session.
func TestNotMessages(t *testing.T) {
	r := newRig(t, Config{})
	long := make([]byte, proto.MaxMessage)
	binary.LittleEndian.PutUint32(long, proto.MaxMessage+1)
	for _, tt := range []struct {
		name  string
		hello bool
		b     []byte
	}{
		{"a byte", true, []byte{0}},
		{"a byte short of a header", true, packet(t, proto.Header{Op: proto.OpAllocPD}, proto.Empty{})[:proto.HeaderSize-1]},
		{"shorter than it says", true, packet(t, proto.Header{Op: proto.OpMapSegment}, proto.MapSegment{})[:proto.HeaderSize+1]},
		{"longer than it says", true, append(packet(t, proto.Header{Op: proto.OpAllocPD}, proto.Empty{}), 0)},
		{"longer than any", true, long},
		{"before HELLO", false, packet(t, proto.Header{Op: proto.OpAllocPD, Seq: 1}, proto.Empty{})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := r.dial(t)
			if tt.hello {
				w.must(proto.OpHello, goodHello(), &proto.HelloReply{})
			}
			if err := w.conn.Send(tt.b); err != nil {
				t.Fatal(err)
			}
			w.ended()
		})
	}
}

// A packet that is larger than a message can be ends the session.
func TestOversized(t *testing.T) {
	r := newRig(t, Config{})
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: r.path}); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(fd, make([]byte, proto.MaxMessage+1)); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Read(fd, make([]byte, 1)); n != 0 {
		t.Errorf("the session goes on: %d, %v", n, err)
	}
}

// What is wrong with a request is told, and the session goes on.
func TestBadRequests(t *testing.T) {
	r := newRig(t, Config{})
	w := r.open(t)
	for _, tt := range []struct {
		name string
		h    proto.Header
		body any
	}{
		{"unknown", proto.Header{Op: 9999}, proto.Empty{}},
		{"number 0", proto.Header{}, proto.Empty{}},
		{"with a status", proto.Header{Op: proto.OpAllocPD, Status: 1}, proto.Empty{}},
		{"body too short", proto.Header{Op: proto.OpCreateQP}, proto.Handle{}},
		{"body too long", proto.Header{Op: proto.OpAllocPD}, proto.Handle{}},
		{"says that descriptors come", proto.Header{Op: proto.OpAllocPD, FDs: 1}, proto.Empty{}},
		{"no descriptor where one is needed", proto.Header{Op: proto.OpSetMemory}, proto.Empty{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := *w
			w.t = t
			tt.h.Seq = 77
			if err := w.conn.Send(packet(t, tt.h, tt.body)); err != nil {
				t.Fatal(err)
			}
			err := w.reply(tt.h.Op, 77, nil)
			if f := (*failure)(nil); !errors.As(err, &f) || f.status != proto.StatusProtocol {
				t.Errorf("%v, want PROTOCOL", err)
			}
			w.must(proto.OpQueryClock, &proto.Empty{}, &proto.Clock{})
		})
	}
}

// Descriptors that nobody asked for, too many or of the wrong kind, are closed.
func TestDescriptorsThatComeAreClosed(t *testing.T) {
	r := newRig(t, Config{})
	w := r.open(t)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fd := int(null.Fd())
	w.must(proto.OpQueryClock, &proto.Empty{}, &proto.Clock{}) // what belongs to OPEN is over
	before := openFiles(t)
	for range 50 {
		w.refused(proto.StatusProtocol, proto.OpAllocPD, &proto.Empty{}, fd)
		w.refused(proto.StatusProtocol, proto.OpSetMemory, &proto.Empty{}, fd, fd)
		w.refused(proto.StatusInvalid, proto.OpSetMemory, &proto.Empty{}, fd)
	}
	w.must(proto.OpQueryClock, &proto.Empty{}, &proto.Clock{}) // and so is what belongs to those
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	many := make([]int, proto.MaxFDs+1)
	for i := range many {
		many[i] = fd
	}
	c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(c)
	if err := unix.Connect(c, &unix.SockaddrUnix{Name: r.path}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Sendmsg(c, packet(t, proto.Header{Op: proto.OpHello}, goodHello()), unix.UnixRights(many...), nil, 0); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Read(c, make([]byte, 1)); n != 0 {
		t.Errorf("the session goes on: %d, %v", n, err)
	}
	waitFor(t, "the end of the session", func() bool { return openFiles(t) == before+1 })
}

// A client that reads no replies is thrown out, and holds up nobody.
func TestWhoDoesNotReadIsThrownOut(t *testing.T) {
	r := newRig(t, Config{patience: 50 * time.Millisecond})
	lazy, other := r.open(t), r.open(t)
	b := packet(t, proto.Header{Op: proto.OpCounters}, proto.Page{})
	sent := 0
	for ; sent < 100_000; sent++ {
		if err := lazy.conn.Send(b); err != nil {
			break
		}
		if sent%100 == 0 {
			other.must(proto.OpQueryClock, &proto.Empty{}, &proto.Clock{})
		}
	}
	if sent == 100_000 {
		t.Error("it goes on")
	}
	waitFor(t, "the end of the session", func() bool { return len(r.srv.Snapshot("")) == 1 })
}
