package connect

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// maxLine bounds one message, so that a peer cannot make us allocate without end.
const maxLine = 1 << 20

var (
	// ErrPeer reports that the peer gave up; the error says why.
	ErrPeer = errors.New("the other end reports")
	// ErrProtocol reports a peer that does not speak this protocol.
	ErrProtocol = errors.New("the other end does not speak this protocol: are both the same version of this program?")
)

// Channel carries messages between the two ends of a test, one line of JSON each.
// One goroutine uses it.
type Channel struct {
	conn net.Conn
	in   *bufio.Reader
	stop func() bool
}

// envelope is a message or the reason why there is none.
type envelope struct {
	Error string          `json:"error,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
}

// Dial connects to the end that listens at addr (host and port). The channel
// breaks when ctx ends.
func Dial(ctx context.Context, addr string) (*Channel, error) {
	d := net.Dialer{Timeout: 10 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w: start the server first, and check address and port", addr, err)
	}
	return newChannel(ctx, conn), nil
}

// Listener waits for the other end.
type Listener struct{ l net.Listener }

// Listen opens a port on all addresses; port 0 takes any free one.
func Listen(ctx context.Context, port int) (*Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, fmt.Errorf("listen on TCP port %d: %w: choose another with -p", port, err)
	}
	return &Listener{l}, nil
}

// Port is the TCP port that the listener has.
func (l *Listener) Port() int { return l.l.Addr().(*net.TCPAddr).Port }

// Accept waits for one peer, closes the listener and returns the channel.
func (l *Listener) Accept(ctx context.Context) (*Channel, error) {
	stop := context.AfterFunc(ctx, func() { l.l.Close() })
	defer stop()
	conn, err := l.l.Accept()
	l.l.Close()
	switch {
	case ctx.Err() != nil:
		if conn != nil {
			conn.Close()
		}
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("wait for the client: %w", err)
	}
	return newChannel(ctx, conn), nil
}

// Close stops waiting for a peer.
func (l *Listener) Close() error { return l.l.Close() }

func newChannel(ctx context.Context, conn net.Conn) *Channel {
	return &Channel{
		conn: conn, in: bufio.NewReaderSize(conn, maxLine),
		stop: context.AfterFunc(ctx, func() { conn.Close() }),
	}
}

// Send sends v.
func (c *Channel) Send(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	return c.send(envelope{Body: body})
}

// Fail tells the peer why this end gives up. Errors do not matter any more.
func (c *Channel) Fail(reason error) { _ = c.send(envelope{Error: reason.Error()}) }

func (c *Channel) send(e envelope) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	if len(line) >= maxLine {
		return fmt.Errorf("message of %d bytes: at most %d are possible", len(line), maxLine-1)
	}
	if _, err := c.conn.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("send to the other end: %w", err)
	}
	return nil
}

// Receive waits for the next message and decodes it into v. It is ErrPeer when
// the peer gave up, io.EOF wrapped when it closed the connection.
func (c *Channel) Receive(v any) error {
	// A peer of another kind may send no line end and wait for our answer: its
	// first byte tells.
	if first, err := c.in.Peek(1); err == nil && first[0] != '{' {
		return fmt.Errorf("%w: not a message", ErrProtocol)
	}
	line, err := c.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return fmt.Errorf("%w: a message of more than %d bytes", ErrProtocol, maxLine)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the other end closed the connection: %w: its program has ended, or was killed", err)
	case err != nil:
		return fmt.Errorf("receive from the other end: %w", err)
	}
	var e envelope
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if e.Error != "" {
		return fmt.Errorf("%w: %q", ErrPeer, e.Error)
	}
	if err := json.Unmarshal(e.Body, v); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return nil
}

// Exchange sends one message and waits for the peer's.
func (c *Channel) Exchange(send, receive any) error {
	if err := c.Send(send); err != nil {
		return err
	}
	return c.Receive(receive)
}

// Barrier returns when both ends have reached the same step.
func (c *Channel) Barrier(step string) error {
	var got string
	if err := c.Exchange(step, &got); err != nil {
		return err
	}
	if got != step {
		return fmt.Errorf("%w: it is at step %q, this end at %q", ErrProtocol, got, step)
	}
	return nil
}

// Close closes the connection.
func (c *Channel) Close() error {
	c.stop()
	return c.conn.Close()
}
