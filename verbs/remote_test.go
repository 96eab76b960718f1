package verbs_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Every status is an error that programs can test for, with the daemon's text.
func TestStatusesAreErrors(t *testing.T) {
	d := newFakeDaemon(t)
	dev := d.open()
	for s, want := range map[proto.Status]error{
		proto.StatusInvalid: verbs.ErrInvalid, proto.StatusState: verbs.ErrState, proto.StatusBusy: verbs.ErrBusy, proto.StatusClosed: verbs.ErrClosed,
		proto.StatusPermission: verbs.ErrPermission, proto.StatusOverflow: verbs.ErrOverflow, proto.StatusUnsupported: verbs.ErrUnsupported,
		proto.StatusLimit: verbs.ErrLimit, proto.StatusExist: fs.ErrExist, proto.StatusNotExist: fs.ErrNotExist, proto.StatusCancelled: context.Canceled,
		proto.StatusDeadline: context.DeadlineExceeded, proto.StatusNoMemory: syscall.ENOMEM, proto.StatusNoRoute: verbs.ErrNoRoute,
		proto.StatusNoNeighbour: verbs.ErrNoNeighbour, proto.StatusNoDevice: verbs.ErrNoDevice, proto.StatusNoSource: verbs.ErrNoSource,
		proto.StatusNoGID: verbs.ErrNoGID, proto.StatusMTU: verbs.ErrMTU, proto.StatusGroup: verbs.ErrGroup, proto.StatusTransition: verbs.ErrTransition,
		proto.StatusAttrMask: verbs.ErrAttrMask, proto.StatusAttrValue: verbs.ErrAttrValue, proto.StatusDraining: verbs.ErrDraining,
		proto.StatusVersion: verbs.ErrVersion,
	} {
		d.set(proto.OpQueryPort, fakeReply{status: s})
		_, err := dev.QueryPort()
		var answer *session.Error
		if !errors.Is(err, want) || !errors.As(err, &answer) || answer.Status != s {
			t.Errorf("%v is %v, want %v", s, err, want)
		}
	}
	d.set(proto.OpQueryPort, fakeReply{status: proto.StatusOther})
	if _, err := dev.QueryPort(); err == nil || !strings.Contains(err.Error(), "OTHER") {
		t.Error(err)
	}
}

// What a daemon hands out must fit; what does not is given back, and the program goes
// on.
func TestRepliesThatDoNotFit(t *testing.T) {
	d := newFakeDaemon(t)
	dev := d.open()
	pd, err := dev.AllocPD()
	d.ok(err)
	good := d.replies[proto.OpCreateCQ]
	cq, err := dev.CreateCQ(10)
	d.ok(err)
	ring, sq := proto.Span{Segment: 1, Size: 8192}, proto.Span{Segment: 1, Offset: 8192, Size: 8192}
	far, none := proto.Span{Segment: 1, Offset: 64 << 10, Size: 1}, proto.Span{Segment: 1, Offset: 32 << 10, Size: 8192}
	createCQ := func() error { _, err := dev.CreateCQ(10); return err }
	createSRQ := func() error { _, err := pd.CreateSRQ(nil); return err }
	createQP := func() error {
		_, err := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
		return err
	}
	alloc := func() error { _, err := dev.AllocBuffer(4096); return err }
	for _, tc := range []struct {
		name  string
		op    proto.Op
		reply fakeReply
		do    func() error
		undo  proto.Op
	}{
		{"a cq without descriptor", proto.OpCreateCQ, fakeReply{body: good.body}, createCQ, proto.OpDestroyCQ},
		{"a cq without ring", proto.OpCreateCQ, fakeReply{body: &proto.CQReply{Handle: 3}, fds: good.fds}, createCQ, proto.OpDestroyCQ},
		{"a cq far away", proto.OpCreateCQ, fakeReply{body: &proto.CQReply{Handle: 3, Ring: far}, fds: good.fds}, createCQ, proto.OpDestroyCQ},
		{"a cq of other elements", proto.OpCreateCQ, fakeReply{body: &proto.CQReply{Handle: 3, Ring: sq}, fds: good.fds}, createCQ, proto.OpDestroyCQ},
		{"a cq that is no ring", proto.OpCreateCQ, fakeReply{body: &proto.CQReply{Handle: 3, Ring: none}, fds: good.fds}, createCQ, proto.OpDestroyCQ},
		{"an srq without ring", proto.OpCreateSRQ, fakeReply{body: &proto.SRQReply{Handle: 3}}, createSRQ, proto.OpDestroySRQ},
		{"an srq far away", proto.OpCreateSRQ, fakeReply{body: &proto.SRQReply{Handle: 3, Ring: far}}, createSRQ, proto.OpDestroySRQ},
		{"a send queue far away", proto.OpCreateQP, fakeReply{body: &proto.QPReply{Handle: 3, SQ: far, RQ: ring}}, createQP, proto.OpDestroyQP},
		{"a receive queue far away", proto.OpCreateQP, fakeReply{body: &proto.QPReply{Handle: 3, SQ: sq, RQ: far}}, createQP, proto.OpDestroyQP},
		{"a doorbell of no worker", proto.OpCreateQP, fakeReply{body: &proto.QPReply{Handle: 3, SQ: sq, RQ: ring, Worker: 1}}, createQP, proto.OpDestroyQP},
		{"a doorbell of no slot", proto.OpCreateQP, fakeReply{body: &proto.QPReply{Handle: 3, SQ: sq, RQ: ring, Slot: 64}}, createQP, proto.OpDestroyQP},
		{"a buffer far away", proto.OpAllocBuffer, fakeReply{body: &proto.AllocBufferReply{Handle: 3, Span: far}}, alloc, proto.OpFreeBuffer},
		{"a short buffer", proto.OpAllocBuffer, fakeReply{body: &proto.AllocBufferReply{Handle: 3, Span: none}}, alloc, proto.OpFreeBuffer},
	} {
		d.set(tc.op, tc.reply)
		if err := tc.do(); err == nil {
			t.Errorf("%s: no error", tc.name)
		}
		if !d.wasAsked(tc.undo) {
			t.Errorf("%s: not given back", tc.name)
		}
	}
	d.set(proto.OpCreateCQ, good)
	d.ok(createCQ())
}

// Addresses of buffers decide what a region is made of.
func TestWhatARegionIsMadeOf(t *testing.T) {
	d := newFakeDaemon(t)
	dev := d.open()
	pd, err := dev.AllocPD()
	d.ok(err)
	d.set(proto.OpRegMR, fakeReply{body: &proto.MRReply{Handle: 9, LKey: 1, RKey: 1}})
	d.set(proto.OpDeregMR, fakeReply{body: &proto.Empty{}})
	d.set(proto.OpSetMemory, fakeReply{body: &proto.Empty{}})
	var bufs [3][]byte
	for i := range bufs {
		d.set(proto.OpAllocBuffer, fakeReply{body: &proto.AllocBufferReply{Handle: uint64(i + 1), Span: proto.Span{Segment: 1, Offset: uint64(4-i) * 8192, Size: 4096}}})
		bufs[i], err = dev.AllocBuffer(4096)
		d.ok(err)
	}
	own := make([]byte, 8192)
	for _, tc := range []struct {
		name   string
		b      []byte
		shared bool
	}{
		{"a whole buffer", bufs[1], true}, {"its last byte", bufs[0][4095:], true}, {"its middle", bufs[2][100:200], true},
		{"memory of the program's own", own, false},
	} {
		mr, err := pd.RegisterMemory(tc.b, verbs.AccessLocalWrite)
		d.ok(err)
		if asked := d.wasAsked(proto.OpSetMemory); asked == tc.shared {
			t.Errorf("%s: the program's memory was handed over: %v", tc.name, asked)
		}
		d.ok(mr.Deregister())
	}
	mr, err := pd.RegisterMemory(own, 0)
	d.ok(err)
	if d.wasAsked(proto.OpSetMemory) {
		t.Error("the program's memory was handed over twice")
	}
	d.ok(mr.Deregister())
	d.ok(dev.FreeBuffer(bufs[1]))
	if err := dev.FreeBuffer(bufs[1]); !errors.Is(err, verbs.ErrInvalid) {
		t.Error(err)
	}
}
