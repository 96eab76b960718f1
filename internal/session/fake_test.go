package session

import (
	"errors"
	"os"
	"reflect"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is what a fake daemon replies.
type answer struct {
	status proto.Status
	body   any // nil: Empty
	fds    []int
	none   bool // no reply, or a later one
}

// daemon is the other end of a session, which answers as told.
type daemon struct {
	t    testing.TB
	conn *shm.Conn
	done sync.WaitGroup

	mu     sync.Mutex
	on     map[proto.Op]func(h proto.Header, body []byte) answer
	states *shm.Memory
	bells  *shm.Memory
	event  *shm.Eventfd
	events *shm.Conn
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newDaemon makes a daemon and the socket to it.
func newDaemon(t testing.TB) (*daemon, *shm.Conn) {
	t.Helper()
	conn, f, err := shm.Pair()
	ok(t, err)
	d := &daemon{t: t, conn: conn, on: map[proto.Op]func(proto.Header, []byte) answer{}}
	d.reply(proto.OpHello, &proto.HelloReply{Version: proto.Version, Devices: 1})
	d.reply(proto.OpCancel, nil)
	d.done.Go(d.run)
	t.Cleanup(d.die)
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	ok(t, errors.Join(err, f.Close()))
	c, err := shm.FromFD(fd)
	ok(t, err)
	return d, c
}

func (d *daemon) run() {
	buf := make([]byte, proto.MaxMessage)
	for {
		n, fds, err := d.conn.Recv(buf)
		fds.Close()
		if err != nil {
			return
		}
		h, body, err := proto.Parse(buf[:n])
		if err != nil {
			d.t.Error(err)
			return
		}
		d.mu.Lock()
		f := d.on[h.Op]
		d.mu.Unlock()
		a := answer{status: proto.StatusProtocol}
		if f != nil {
			a = f(h, body)
		}
		if !a.none {
			d.send(h, a)
		}
	}
}

func (d *daemon) send(h proto.Header, a answer) {
	h.Status, h.FDs = a.status, uint16(len(a.fds))
	body := a.body
	switch {
	case a.status != proto.StatusOK:
		f := &proto.Failure{}
		proto.PutText(f.Text[:], "because of "+a.status.String())
		body = f
	case body == nil:
		body = &proto.Empty{}
	}
	b, err := proto.Append(nil, h, body)
	if err != nil {
		d.t.Error(err)
		return
	}
	_ = d.conn.Send(b, a.fds...) // the program may be gone
}

// answers sets what a request is answered with.
func (d *daemon) answers(op proto.Op, f func(proto.Header, []byte) answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on[op] = f
}

func (d *daemon) reply(op proto.Op, body any) {
	d.answers(op, func(proto.Header, []byte) answer { return answer{body: body} })
}

// die ends the daemon as a kill does.
func (d *daemon) die() {
	_ = d.conn.Close()
	d.done.Wait()
	if d.events != nil {
		_ = d.events.Close()
		_ = d.states.Close()
		_ = d.bells.Close()
		_ = d.event.Close()
	}
}

// offer has the daemon offer a device with two workers of 64 doorbells each; the
// eventfds of both are one.
func (d *daemon) offer() {
	d.t.Helper()
	var theirs *os.File
	var err error
	d.states, err = shm.Create("states", 2*128, shm.Options{ReadOnly: true})
	ok(d.t, err)
	d.bells, err = shm.Create("bells", 2*256, shm.Options{})
	ok(d.t, err)
	d.event, err = shm.NewEventfd()
	ok(d.t, err)
	d.events, theirs, err = shm.Pair()
	ok(d.t, err)
	d.t.Cleanup(func() { _ = theirs.Close() })
	a := answer{
		body: &proto.OpenReply{Workers: 2, BellStride: 256, StateStride: 128, BellSlots: 64, ClientID: 7},
		fds:  []int{int(theirs.Fd()), d.states.FD(), d.bells.FD(), d.event.FD(), d.event.FD()},
	}
	d.answers(proto.OpOpen, func(proto.Header, []byte) answer { return a })
}

func (d *daemon) workerBells(i int) *queue.Bells {
	d.t.Helper()
	b, err := queue.OpenBells(d.bells.Bytes()[256*i:], 64)
	ok(d.t, err)
	return b
}

// start begins a session with a daemon.
func start(t testing.TB) (*daemon, *Session) {
	t.Helper()
	d, c := newDaemon(t)
	s, err := Start(t.Context(), c)
	ok(t, err)
	t.Cleanup(s.Close)
	return d, s
}

// fresh is a pointer to a new value of v's type.
func fresh(v any) any { return reflect.New(reflect.TypeOf(v)).Interface() }
