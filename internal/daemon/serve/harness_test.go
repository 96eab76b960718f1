package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a server with one device, joined in memory with another one.
type rig struct {
	srv  *Server
	dev  *verbs.Context // mem0, which is served
	peer *verbs.Context // mem1
	path string
}

func newRig(t testing.TB, cfg Config) *rig {
	t.Helper()
	a, b := datapathtest.Pair(t, datapathtest.Options{})
	r := &rig{srv: New(cfg), dev: a, peer: b, path: filepath.Join(t.TempDir(), "verbs.sock")}
	if err := r.srv.AddDevice(a); err != nil {
		t.Fatal(err)
	}
	serveAt(t, r.srv, r.path)
	return r
}

// serveAt has the server listen at a path until the test ends.
func serveAt(t testing.TB, srv *Server, path string) {
	t.Helper()
	l, err := shm.Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; !errors.Is(err, ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
}

// raw is a client that says what a test wants, right or wrong.
type raw struct {
	t    testing.TB
	conn *shm.Conn
	seq  uint32
	fds  shm.FDs // that came with the last reply
}

// dial connects without a word.
func (r *rig) dial(t testing.TB) *raw {
	t.Helper()
	c, err := shm.Dial(r.path)
	if err != nil {
		t.Fatal(err)
	}
	w := &raw{t: t, conn: c}
	t.Cleanup(w.close)
	return w
}

// greet connects and says HELLO.
func (r *rig) greet(t testing.TB) *raw {
	t.Helper()
	w := r.dial(t)
	w.must(proto.OpHello, goodHello(), &proto.HelloReply{})
	return w
}

// open connects and opens the device.
func (r *rig) open(t testing.TB) *raw {
	t.Helper()
	w := r.greet(t)
	w.must(proto.OpOpen, openOf("mem0"), &proto.OpenReply{})
	w.fds.Close()
	return w
}

func goodHello() *proto.Hello {
	return &proto.Hello{Magic: proto.Magic, MinVersion: proto.MinVersion, MaxVersion: proto.Version}
}

func openOf(name string) *proto.Open {
	m := &proto.Open{}
	proto.PutText(m.Name[:], name)
	return m
}

func (w *raw) close() {
	w.fds.Close()
	_ = w.conn.Close()
}

// failure is a reply that says no.
type failure struct {
	status proto.Status
	text   string
}

func (f *failure) Error() string { return fmt.Sprintf("%v: %s", f.status, f.text) }

// call sends a request and waits for its reply.
func (w *raw) call(op proto.Op, req, rep any, fds ...int) error {
	w.t.Helper()
	w.send(op, req, fds...)
	return w.reply(op, w.seq, rep)
}

func (w *raw) send(op proto.Op, req any, fds ...int) {
	w.t.Helper()
	w.seq++
	b, err := proto.Append(nil, proto.Header{Op: op, Seq: w.seq, FDs: uint16(len(fds))}, req)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.conn.Send(b, fds...); err != nil {
		w.t.Fatalf("%v: %v", op, err)
	}
}

// reply takes the next reply, which must be the one to seq. shm.ErrClosed: the server
// has ended the session.
func (w *raw) reply(op proto.Op, seq uint32, rep any) error {
	w.t.Helper()
	w.fds.Close()
	if err := w.conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	buf := make([]byte, proto.MaxMessage)
	n, fds, err := w.conn.Recv(buf)
	if err != nil {
		return err
	}
	w.fds = fds
	h, body, err := proto.Parse(buf[:n])
	if err != nil {
		w.t.Fatalf("reply to %v: %v", op, err)
	}
	if h.Op != op || h.Seq != seq || int(h.FDs) != len(fds) {
		w.t.Fatalf("reply %+v with %d descriptors to %v number %d", h, len(fds), op, seq)
	}
	if h.Status != proto.StatusOK {
		var f proto.Failure
		if err := proto.Decode(body, &f); err != nil {
			w.t.Fatal(err)
		}
		return &failure{h.Status, proto.Text(f.Text[:])}
	}
	if rep == nil {
		rep = &proto.Empty{}
	}
	if err := proto.Decode(body, rep); err != nil {
		w.t.Fatalf("%v: %v", op, err)
	}
	return nil
}

func (w *raw) must(op proto.Op, req, rep any, fds ...int) {
	w.t.Helper()
	if err := w.call(op, req, rep, fds...); err != nil {
		w.t.Fatalf("%v: %v", op, err)
	}
}

// refused: the request fails with a status.
func (w *raw) refused(want proto.Status, op proto.Op, req any, fds ...int) {
	w.t.Helper()
	err := w.call(op, req, nil, fds...)
	var f *failure
	if !errors.As(err, &f) || f.status != want {
		w.t.Errorf("%v: %v, want %v", op, err, want)
	} else if len(f.text) < 5 {
		w.t.Errorf("%v: the text %q says nothing", op, f.text)
	}
}

// ended: the server ends the session.
func (w *raw) ended() {
	w.t.Helper()
	if err := w.conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	buf := make([]byte, proto.MaxMessage)
	for {
		_, fds, err := w.conn.Recv(buf)
		fds.Close()
		if errors.Is(err, shm.ErrClosed) {
			return
		}
		if err != nil {
			w.t.Fatalf("the session goes on: %v", err)
		}
	}
}

// waitFor waits until something that is under way has happened.
func waitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: has not happened in 20 s", what)
		}
	}
}

// openFiles are the descriptors of the process.
func openFiles(t testing.TB) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

func sizeOf(v any) int { return binary.Size(v) }

func selfCred(t testing.TB) Cred {
	t.Helper()
	return Cred{PID: os.Getpid(), UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
}

// Addresses of the device that is served, and of the other one.
var ownAddr, peerAddr = datapathtest.IPv4[0], datapathtest.IPv4[1]
