package ping

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// peer is an end whose protocol a test writes out.
type peer struct {
	*link
	t  *testing.T
	pd *verbs.PD
}

func newPeer(t *testing.T, dev *verbs.Context) *peer {
	t.Helper()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	return &peer{link: &link{dev: dev}, t: t, pd: pd}
}

func (p *peer) prepared() *cm.Config {
	cfg := config(p.pd, func(qp *verbs.QP) error { return p.prepare(p.pd, qp) })
	return &cfg
}

// dialed is a peer that is connected to a server on B.
func dialed(t *testing.T, dev *verbs.Context) *peer {
	t.Helper()
	p := newPeer(t, dev)
	var err error
	if p.conn, err = cm.Dial(within(t), dev, datapathtest.IPv4[1].String()+":7174", p.prepared()); err != nil {
		t.Fatal(err)
	}
	return p
}

// accepted runs a server on dev that is what serve does with its client.
func accepted(t *testing.T, dev *verbs.Context, serve func(p *peer)) (wait func()) {
	t.Helper()
	p := newPeer(t, dev)
	l, err := cm.Listen(dev, ":7174", p.prepared())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	ctx := within(t)
	go func() {
		defer close(done)
		defer l.Close()
		if p.conn, err = l.Accept(ctx); err != nil {
			t.Error(err)
			return
		}
		serve(p)
		if err := p.conn.Close(); err != nil {
			t.Error(err)
		}
	}()
	return func() { <-done }
}

func (p *peer) mustSend(m buffer) {
	p.t.Helper()
	if err := p.send(m); err != nil {
		p.t.Error(err)
	}
}

// next is the peer's next message; there is none when it has hung up.
func (p *peer) next() (buffer, bool) {
	p.t.Helper()
	if err := p.await(within(p.t), receiving); err != nil {
		if !errors.Is(err, cm.ErrDisconnected) {
			p.t.Error(err)
		}
		return buffer{}, false
	}
	m, err := parseBuffer(p.message[:p.length])
	if err != nil {
		p.t.Error(err)
	}
	return m, err == nil
}

// rounds serves as rping in C does: it WRITEs up to the first NUL of what it has
// read. change may spoil that.
func (p *peer) rounds(change func(b []byte)) {
	p.t.Helper()
	data, err := p.region(p.pd, maxBuffer, verbs.AccessLocalWrite)
	if err != nil {
		p.t.Error(err)
		return
	}
	ctx := within(p.t)
	for {
		m, ok := p.next()
		if !ok {
			return
		}
		if err := p.move(ctx, verbs.OpRDMARead, reading, data, m); err != nil {
			p.t.Error(err)
			return
		}
		m.size = uint32(bytes.IndexByte(data.Bytes(), 0) + 1)
		if change != nil {
			change(data.Bytes()[:m.size])
		}
		p.mustSend(buffer{})
		sink, ok := p.next()
		if !ok {
			return
		}
		sink.size = m.size
		if err := p.move(ctx, verbs.OpRDMAWrite, writing, data, sink); err != nil {
			p.t.Error(err)
			return
		}
		p.mustSend(buffer{})
	}
}

// TestServerOfC: a server that copies up to the first NUL copies everything.
func TestServerOfC(t *testing.T) {
	for _, size := range []int{MinSize, 64, 4096, MaxSize} {
		a, b := devices(t)
		wait := accepted(t, b, func(p *peer) { p.rounds(nil) })
		res, _, err := runClient(t, a, func(o *Options) { o.Size, o.Count = size, 70 })
		if err != nil || res.Rounds != 70 {
			t.Errorf("%d bytes: %+v, %v", size, res, err)
		}
		wait()
	}
}

// TestMismatch: data that comes back spoilt is seen with -V, and only then.
func TestMismatch(t *testing.T) {
	for _, validate := range []bool{true, false} {
		a, b := devices(t)
		wait := accepted(t, b, func(p *peer) { p.rounds(func(b []byte) { b[40] ^= 1 }) })
		res, out, err := runClient(t, a, func(o *Options) { o.Validate = validate })
		wait()
		if validate != errors.Is(err, ErrMismatch) || !validate && err != nil {
			t.Errorf("-V %v: %v", validate, err)
		}
		if validate && (!strings.Contains(err.Error(), "in round 0: byte 40 of 64 is") || res.Rounds != 1) {
			t.Errorf("error %v after %+v", err, res)
		}
		if !strings.Contains(out, " bytes, 0 lost, rtt ") {
			t.Errorf("no summary: %q", out)
		}
	}
}

// TestServerFails: what a client says of servers that do not go on.
func TestServerFails(t *testing.T) {
	for _, tt := range []struct {
		name  string
		serve func(p *peer)
		want  error
		says  string
	}{
		{"it hangs up", func(p *peer) { p.next() }, cm.ErrDisconnected, "192.0.2.2:7174 has ended the connection"},
		{"it is silent", func(p *peer) { p.next(); <-p.conn.Done() }, ErrNoAnswer, "although it is connected: its program may have stopped"},
		{"its memory is gone", func(p *peer) { // the receive that is posted has none
			p.next()
			if err := p.inbox.Deregister(); err != nil {
				p.t.Error(err)
			}
			p.mustSend(buffer{})
			<-p.conn.Done()
		}, nil, "192.0.2.2:7174 takes nothing any more: its program was killed, or it has failed"},
		{"it says too much at a time", func(p *peer) {
			p.next()
			p.mustSend(buffer{})
			p.mustSend(buffer{})
			p.mustSend(buffer{})
			<-p.conn.Done()
		}, nil, ""},
		{"its messages are short", func(p *peer) {
			p.next()
			if err := p.qp.PostSend(&verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, InlineData: []byte("ok")}); err != nil {
				p.t.Error(err)
			}
			<-p.conn.Done()
		}, ErrProtocol, "a message of 2 bytes, not 16"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := devices(t)
			wait := accepted(t, b, tt.serve)
			res, out, err := runClient(t, a, func(o *Options) { o.Timeout = 2 * time.Second })
			wait()
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if res == nil || res.Lost+res.Rounds == 0 || !strings.Contains(out, " rounds of 64 bytes, ") {
				t.Errorf("result %+v, %q", res, out)
			}
		})
	}
}

// TestClientFails: what a server says of clients that break the protocol. It ends.
func TestClientFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		client func(p *peer)
		says   string
	}{
		{"a message of another length", func(p *peer) {
			if err := p.qp.PostSend(&verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline, InlineData: []byte("hello")}); err != nil {
				p.t.Error(err)
			}
		}, "not an rping program: a message of 5 bytes"},
		{"too much data", func(p *peer) { p.mustSend(buffer{size: 1 << 20}) }, "it offers 1048576 bytes"},
		{"a key that leads nowhere", func(p *peer) { p.mustSend(buffer{addr: 4096, rkey: 1, size: 64}) }, "READ of the client's data: "},
		{"the end in the middle", func(p *peer) {
			mr, err := p.region(p.pd, 64, verbs.AccessLocalWrite|verbs.AccessRemoteRead)
			if err != nil {
				p.t.Error(err)
				return
			}
			p.mustSend(buffer{addr: mr.Addr(), rkey: mr.RKey(), size: 64})
			if err := p.await(within(p.t), receiving); err != nil {
				p.t.Error(err)
			}
			_ = p.conn.Disconnect(within(p.t))
		}, "in the middle of a round: the peer has disconnected"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := devices(t)
			s := serve(t, b, nil)
			p := dialed(t, a)
			tt.client(p)
			<-p.conn.Done()
			err := <-s.err
			if err == nil || !strings.HasPrefix(err.Error(), "client 192.0.2.1:") || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("server: %v, want that it says %q", err, tt.says)
			}
			if out := s.out.String(); !strings.Contains(out, ": 0 rounds of ") || !strings.Contains(out, ", 1 lost\n") {
				t.Errorf("server prints %q", out)
			}
			if err := p.conn.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSilentClient: a server looks whether a silent client is still there, and
// waits on when it is.
func TestSilentClient(t *testing.T) {
	a, b := devices(t)
	s := serve(t, b, func(o *Options) { o.Timeout = 20 * time.Millisecond; o.Persistent = true })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := newPeer(t, a)
	cfg := p.prepared()
	cfg.AckTimeout, cfg.RetryCount = 12, 1 // for both ends, to which the device's own delay is added
	for {                                  // with such a time-out the server may give up a connection first
		var err error
		if p.conn, err = cm.Dial(ctx, a, datapathtest.IPv4[1].String()+":7174", cfg); err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(200 * time.Millisecond)
	if err := p.conn.Err(); err != nil {
		t.Fatalf("the server has ended the connection: %v", err)
	}
	if before, err := p.conn.QP().Query(); err != nil || before.RQPSN == 0 {
		t.Errorf("%+v, %v", before, err)
	}
	// It goes, without a word, with the device.
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(s.out.String(), ": 0 rounds of 0 bytes, 0 lost") {
		if ctx.Err() != nil {
			t.Fatalf("the server has not noticed: %q", s.out.String())
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.end()
	if err := <-s.err; err != nil {
		t.Error(err)
	}
}
