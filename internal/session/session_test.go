package session

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

func TestCallsAreAnsweredInAnyOrder(t *testing.T) {
	d, s := start(t)
	// Replies wait until there are ten, and go out in reverse.
	type asked struct {
		h proto.Header
		n uint64
	}
	var mu sync.Mutex
	var waiting []asked
	d.answers(proto.OpQueryCQ, func(h proto.Header, body []byte) answer {
		var req proto.Handle
		if err := proto.Decode(body, &req); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		waiting = append(waiting, asked{h, req.Handle})
		if len(waiting) == 10 {
			slices.Reverse(waiting)
			for _, w := range waiting {
				d.send(w.h, answer{body: &proto.CQAttr{PeriodNS: w.n}})
			}
		}
		return answer{none: true}
	})
	var wg sync.WaitGroup
	for i := range uint64(10) {
		wg.Go(func() {
			var rep proto.CQAttr
			if err := s.Do(proto.OpQueryCQ, &proto.Handle{Handle: i}, &rep); err != nil || rep.PeriodNS != i {
				t.Errorf("request %d: %d, %v", i, rep.PeriodNS, err)
			}
		})
	}
	wg.Wait()
}

func TestCallFails(t *testing.T) {
	d, s := start(t)
	d.answers(proto.OpAllocPD, func(proto.Header, []byte) answer { return answer{status: proto.StatusLimit} })
	err := s.Do(proto.OpAllocPD, &proto.Empty{}, &proto.PD{})
	var e *Error
	if !errors.As(err, &e) || e.Status != proto.StatusLimit || e.Op != proto.OpAllocPD || e.Error() != "because of LIMIT" {
		t.Errorf("%#v", err)
	}
	if got := (&Error{Op: proto.OpAllocPD, Status: proto.StatusBusy}).Error(); got != "the daemon answers BUSY to ALLOC_PD" {
		t.Error(got)
	}
	d.reply(proto.OpAllocPD, &proto.SRQAttr{})
	if err := s.Do(proto.OpAllocPD, &proto.Empty{}, &proto.PD{}); !errors.Is(err, ErrProtocol) {
		t.Errorf("a body of another size: %v", err)
	}
	d.reply(proto.OpAllocPD, &proto.PD{PD: 3})
	var rep proto.PD
	if err := s.Do(proto.OpAllocPD, &proto.Empty{}, &rep); err != nil || rep.PD != 3 {
		t.Errorf("the session does not go on: %v", err)
	}
}

func TestCallIsCancelled(t *testing.T) {
	d, s := start(t)
	asked, cancelled := make(chan proto.Header, 1), make(chan uint32, 1)
	d.answers(proto.OpResolve, func(h proto.Header, _ []byte) answer { asked <- h; return answer{none: true} })
	d.answers(proto.OpCancel, func(_ proto.Header, body []byte) answer {
		var req proto.Cancel
		if err := proto.Decode(body, &req); err != nil {
			t.Error(err)
		}
		cancelled <- req.Seq
		return answer{}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Call(ctx, proto.OpResolve, &proto.Resolve{}, &proto.Resolution{})
		done <- err
	}()
	h := <-asked
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if seq := <-cancelled; seq != h.Seq {
		t.Errorf("request %d was cancelled, not %d", seq, h.Seq)
	}
	// The reply comes all the same, with a descriptor, and concerns nobody.
	m, err := shm.Create("test", 1, shm.Options{})
	ok(t, err)
	defer m.Close()
	d.send(h, answer{body: &proto.Resolution{}, fds: []int{m.FD()}})
	d.reply(proto.OpAllocPD, &proto.PD{})
	ok(t, s.Do(proto.OpAllocPD, &proto.Empty{}, &proto.PD{}))
	if len(s.calls) != 0 {
		t.Errorf("%d requests are left", len(s.calls))
	}
	if _, err := s.Call(ctx, proto.OpResolve, &proto.Resolve{}, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// What a request that is cancelled has left behind is known.
func TestCompleteIsCancelled(t *testing.T) {
	for name, tt := range map[string]struct {
		late answer
		want error
	}{
		"before it was done": {answer{status: proto.StatusCancelled}, &Error{Status: proto.StatusCancelled}},
		"after it was done":  {answer{body: &proto.AH{AH: 7}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d, s := start(t)
			asked, cancelled := make(chan proto.Header, 1), make(chan bool, 1)
			d.answers(proto.OpCreateAH, func(h proto.Header, _ []byte) answer { asked <- h; return answer{none: true} })
			d.answers(proto.OpCancel, func(proto.Header, []byte) answer { cancelled <- true; return answer{} })
			ctx, cancel := context.WithCancel(t.Context())
			var rep proto.AH
			done := make(chan error, 1)
			go func() { done <- s.Complete(ctx, proto.OpCreateAH, &proto.CreateAH{}, &rep) }()
			h := <-asked
			cancel()
			<-cancelled
			select {
			case err := <-done:
				t.Fatalf("%v before the daemon has answered", err)
			case <-time.After(20 * time.Millisecond):
			}
			d.send(h, tt.late)
			err := <-done
			if e := (*Error)(nil); tt.want == nil && (err != nil || rep.AH != 7) || tt.want != nil && (!errors.As(err, &e) || e.Status != proto.StatusCancelled) {
				t.Errorf("%v and %+v, want %v", err, rep, tt.want)
			}
			if err := s.Complete(ctx, proto.OpCreateAH, &proto.CreateAH{}, nil); !errors.Is(err, context.Canceled) || len(asked) != 0 {
				t.Errorf("asked in vain: %v", err)
			}
		})
	}
}

// Everything that waits ends at once with the daemon, and everything later too.
func TestDaemonDies(t *testing.T) {
	d, s := start(t)
	d.offer()
	ok(t, s.Open(t.Context(), "eth0"))
	asked := make(chan bool, 1)
	d.answers(proto.OpResolve, func(proto.Header, []byte) answer { asked <- true; return answer{none: true} })
	done := make(chan error, 2)
	go func() { done <- s.Do(proto.OpResolve, &proto.Resolve{}, &proto.Resolution{}) }()
	go func() { _, err := s.NextEvent(); done <- err }()
	<-asked
	if s.Err() != nil || s.Lost().Load() {
		t.Error(s.Err())
	}
	d.die()
	for range cap(done) {
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	<-s.Done()
	if !s.Lost().Load() || !errors.Is(s.Err(), ErrClosed) || !strings.Contains(s.Err().Error(), "daemon") {
		t.Error(s.Err())
	}
	if err := s.Do(proto.OpAllocPD, &proto.Empty{}, &proto.PD{}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, _, err := s.Memory(&proto.Span{Segment: 1, Size: 1}, false); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestLastWordsOfADaemonCount(t *testing.T) {
	d, s := start(t)
	d.answers(proto.OpAllocPD, func(h proto.Header, _ []byte) answer {
		d.send(h, answer{body: &proto.PD{PD: 5}})
		_ = d.conn.Close()
		return answer{none: true}
	})
	var rep proto.PD
	if err := s.Do(proto.OpAllocPD, &proto.Empty{}, &rep); err != nil || rep.PD != 5 {
		t.Error(rep, err)
	}
}

func TestNonsenseEndsTheSession(t *testing.T) {
	for name, answers := range map[string]func(d *daemon, h proto.Header){
		"no message":      func(d *daemon, _ proto.Header) { _ = d.conn.Send([]byte("hello")) },
		"nobody's number": func(d *daemon, h proto.Header) { h.Seq += 100; d.send(h, answer{body: &proto.PD{}}) },
		"another request": func(d *daemon, h proto.Header) { h.Op++; d.send(h, answer{body: &proto.PD{}}) },
		"descriptors that it lacks": func(d *daemon, h proto.Header) {
			h.FDs = 1
			b, _ := proto.Append(nil, h, &proto.PD{})
			_ = d.conn.Send(b)
		},
	} {
		d, s := start(t)
		d.answers(proto.OpAllocPD, func(h proto.Header, _ []byte) answer { answers(d, h); return answer{none: true} })
		if err := s.Do(proto.OpAllocPD, &proto.Empty{}, &proto.PD{}); !errors.Is(err, ErrProtocol) || !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHello(t *testing.T) {
	for _, tc := range []struct {
		name  string
		reply answer
		want  error
	}{
		{"refused", answer{status: proto.StatusPermission}, ErrPermission},
		{"other versions", answer{status: proto.StatusVersion}, ErrVersion},
		{"a version that was not offered", answer{body: &proto.HelloReply{Version: proto.Version + 1}}, ErrVersion},
		{"none", answer{body: &proto.HelloReply{}}, ErrVersion},
	} {
		d, c := newDaemon(t)
		d.answers(proto.OpHello, func(proto.Header, []byte) answer { return tc.reply })
		if _, err := Start(t.Context(), c); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	d, c := newDaemon(t)
	d.answers(proto.OpHello, func(proto.Header, []byte) answer { return answer{none: true} })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestConnect(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(DirVariable, dir)
	if Dir() != dir {
		t.Error(Dir())
	}
	_, err := Connect(t.Context(), Dir())
	if !errors.Is(err, ErrNoDaemon) || !strings.Contains(err.Error(), "roce-xdp run") || !strings.Contains(err.Error(), DirVariable) {
		t.Error(err)
	}
	if _, err := Connect(t.Context(), filepath.Join(dir, "deeper")); !errors.Is(err, ErrNoDaemon) {
		t.Error(err)
	}
	l, err := shm.Listen(SocketPath(dir), 0o600)
	ok(t, err)
	l.SetUnlinkOnClose(false)
	ok(t, l.Close())
	if _, err := Connect(t.Context(), dir); !errors.Is(err, ErrNoDaemon) {
		t.Error(err)
	}
	t.Setenv(DirVariable, "")
	if Dir() != DefaultDir {
		t.Error(Dir())
	}
	ok(t, os.Remove(SocketPath(dir)))
}

func TestLists(t *testing.T) {
	d, s := start(t)
	const total = 70
	d.answers(proto.OpDevices, func(_ proto.Header, body []byte) answer {
		var p proto.Page
		if err := proto.Decode(body, &p); err != nil {
			t.Error(err)
		}
		rep := &proto.DevicesReply{Total: total}
		for i := p.First; i < total && rep.Count < 32; i++ {
			rep.Entry[rep.Count].IfIndex = i
			rep.Count++
		}
		return answer{body: rep}
	})
	all, err := s.Devices(t.Context())
	if err != nil || len(all) != total {
		t.Fatal(len(all), err)
	}
	for i := range all {
		if all[i].IfIndex != uint32(i) {
			t.Errorf("entry %d is %d", i, all[i].IfIndex)
		}
	}
	d.reply(proto.OpDevices, &proto.DevicesReply{Total: 100, Count: 33})
	if _, err := s.Devices(t.Context()); !errors.Is(err, ErrProtocol) {
		t.Error(err)
	}
	d.reply(proto.OpDevices, &proto.DevicesReply{Total: 100})
	if all, err := s.Devices(t.Context()); err != nil || len(all) != 0 {
		t.Error(all, err)
	}
}
