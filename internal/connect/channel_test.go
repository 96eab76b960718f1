package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// channels are the two ends of a connection on the loopback interface.
func channels(t *testing.T, ctx context.Context) (server, client *Channel) {
	t.Helper()
	l, err := Listen(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan *Channel, 1)
	go func() {
		c, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	client, err = Dial(ctx, fmt.Sprintf("127.0.0.1:%d", l.Port()))
	if err != nil {
		t.Fatal(err)
	}
	server = <-accepted
	t.Cleanup(func() { client.Close(); server.Close() })
	return server, client
}

func TestChannelExchange(t *testing.T) {
	server, client := channels(t, t.Context())
	type message struct {
		Text string
		List []Endpoint
	}
	want := message{"hello\nworld", make([]Endpoint, 1000)}
	for i := range want.List {
		want.List[i] = Endpoint{QPN: uint32(i), Addr: 1 << 63}
	}
	go func() { _ = server.Send(want) }()
	var got message
	if err := client.Exchange("unread", &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b Endpoint) bool { return a == b })); d != "" {
		t.Error(d)
	}
}

func TestChannelBarrier(t *testing.T) {
	server, client := channels(t, t.Context())
	result := make(chan error, 1)
	go func() { result <- server.Barrier("start") }()
	if err := client.Barrier("start"); err != nil {
		t.Error(err)
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
	go func() { result <- server.Barrier("one") }()
	if err := client.Barrier("other"); !errors.Is(err, ErrProtocol) {
		t.Errorf("ends at different steps: %v, want ErrProtocol", err)
	}
	<-result
}

func TestChannelPeerFails(t *testing.T) {
	server, client := channels(t, t.Context())
	server.Fail(errors.New("no such device"))
	var got string
	err := client.Receive(&got)
	if !errors.Is(err, ErrPeer) || !strings.Contains(err.Error(), "no such device") {
		t.Errorf("Receive = %v, want ErrPeer with the reason", err)
	}
}

func TestChannelBadPeers(t *testing.T) {
	tests := []struct {
		name, bytes string
		want        error
	}{
		{"closes", "", io.EOF},
		{"closes within a line", `{"body":`, io.EOF},
		{"not JSON", "220 mail.example ESMTP\n", ErrProtocol},
		{"wrong type", `{"body":{"a":1}}` + "\n", ErrProtocol},
		{"no body", "{}\n", ErrProtocol},
		{"endless line", strings.Repeat("x", maxLine+1), ErrProtocol},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := net.Pipe()
			c := newChannel(t.Context(), a)
			defer c.Close()
			go func() {
				_, _ = io.WriteString(b, tt.bytes)
				b.Close()
			}()
			var got string
			if err := c.Receive(&got); !errors.Is(err, tt.want) {
				t.Errorf("Receive = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestChannelTooLongToSend(t *testing.T) {
	_, client := channels(t, t.Context())
	if err := client.Send(strings.Repeat("x", maxLine)); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("Send of an oversized message = %v", err)
	}
}

func TestChannelEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, client := channels(t, ctx)
	time.AfterFunc(20*time.Millisecond, cancel)
	var got string
	if err := client.Receive(&got); err == nil {
		t.Error("Receive went on after the context ended")
	}
}

func TestListener(t *testing.T) {
	t.Run("accept ends with the context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l, err := Listen(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(20*time.Millisecond, cancel)
		if _, err := l.Accept(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Accept = %v, want context.Canceled", err)
		}
	})
	t.Run("port taken", func(t *testing.T) {
		l, err := Listen(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if _, err := Listen(t.Context(), l.Port()); err == nil || !strings.Contains(err.Error(), "-p") {
			t.Errorf("second Listen = %v, want advice to use -p", err)
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		l, err := Listen(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if _, err := Dial(t.Context(), fmt.Sprintf("127.0.0.1:%d", l.Port())); err == nil || !strings.Contains(err.Error(), "start the server") {
			t.Errorf("Dial = %v, want advice to start the server", err)
		}
	})
}

// A program of another kind, such as ibv_rc_pingpong, sends its address without
// a line end and waits: waiting for the rest would last for ever.
func TestChannelForeignPeer(t *testing.T) {
	server, client := channels(t, t.Context())
	if _, err := client.conn.Write([]byte("0000:08b0c5:84d3a2:00000000000000000000ffffc0000202")); err != nil {
		t.Fatal(err)
	}
	if err := server.conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := server.Receive(&got); !errors.Is(err, ErrProtocol) {
		t.Errorf("Receive: %v, want ErrProtocol", err)
	}
}
