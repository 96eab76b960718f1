package pingpong

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// peerSays gives a connection whose other end writes the parts, one write each,
// and closes.
func peerSays(t *testing.T, parts ...string) conn {
	t.Helper()
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close() })
	go func() {
		for _, p := range parts {
			_, _ = io.WriteString(b, p)
		}
		b.Close()
	}()
	return conn{a}
}

func TestReceive(t *testing.T) {
	tests := []struct {
		name  string
		parts []string
		want  string // of the error; empty: the stock address
	}{
		{"at once", []string{stock}, ""},
		{"in pieces", []string{stock[:7], stock[7:20], stock[20:]}, ""},
		{"closed at once", nil, "0 of 52 bytes"},
		{"closed within", []string{stock[:20]}, "20 of 52 bytes"},
		{"something else", []string{strings.Repeat("HTTP/1.1 400 Bad Request\r\n", 3)}, "not a pingpong"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := peerSays(t, tt.parts...).receive()
			if tt.want == "" {
				if err != nil || got != stockAddress() {
					t.Errorf("receive = %+v, %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("receive = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestFinished(t *testing.T) {
	for _, tt := range []struct {
		name, says string
		ok         bool
	}{
		{"done with its NUL", "done\x00", true},
		{"done without", "done", false},
		{"another word", "DONE\x00", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := peerSays(t, tt.says).finished(); (err == nil) != tt.ok {
				t.Errorf("finished = %v, want success: %v", err, tt.ok)
			}
		})
	}
}

// writes counts how messages reach the connection.
type writes struct {
	net.Conn
	list []string
}

func (w *writes) Write(b []byte) (int, error) {
	w.list = append(w.list, string(b))
	return len(b), nil
}

// The C programs read a message with one read: each is one write.
func TestOneWriteForEachMessage(t *testing.T) {
	w := &writes{}
	c := conn{w}
	if err := errors.Join(c.send(stockAddress()), c.finish()); err != nil {
		t.Fatal(err)
	}
	if len(w.list) != 2 || w.list[0] != stock || w.list[1] != done {
		t.Errorf("writes %q, want the address and %q", w.list, done)
	}
}
