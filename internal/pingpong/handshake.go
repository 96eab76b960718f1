package pingpong

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// done ends the handshake: the C programs send the word with its NUL.
const done = "done\x00"

// handshakeTime bounds the wait for each message of a peer that has connected.
const handshakeTime = 30 * time.Second

// conn is the TCP connection of the handshake. The C programs read each message
// with one read, so each is sent with one write on a connection without delay.
type conn struct{ net.Conn }

func dial(ctx context.Context, host string, port int) (conn, error) {
	d := net.Dialer{Timeout: handshakeTime}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return conn{}, fmt.Errorf("couldn't connect to %s:%d: %w: start the server first", host, port, err)
	}
	return conn{c}, nil // Go sets TCP_NODELAY
}

// accept waits for one client on any address and closes the port.
func accept(ctx context.Context, port int, listening func(port int)) (conn, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return conn{}, fmt.Errorf("couldn't listen to port %d: %w: choose another with -p", port, err)
	}
	defer l.Close()
	if listening != nil {
		listening(l.Addr().(*net.TCPAddr).Port)
	}
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	c, err := l.Accept()
	if ctx.Err() != nil {
		if c != nil {
			c.Close()
		}
		return conn{}, ctx.Err()
	}
	if err != nil {
		return conn{}, fmt.Errorf("wait for the client: %w", err)
	}
	return conn{c}, nil
}

func (c conn) send(a address) error {
	if _, err := c.Write(a.message()); err != nil {
		return fmt.Errorf("couldn't send local address: %w", err)
	}
	return nil
}

func (c conn) receive() (address, error) {
	var msg [addressLen]byte
	if err := c.read(msg[:]); err != nil {
		return address{}, fmt.Errorf("couldn't read remote address: %w", err)
	}
	return parseAddress(msg[:])
}

// finish tells the server that the client has everything.
func (c conn) finish() error {
	_, err := io.WriteString(c, done)
	return err
}

// finished waits for the client's finish.
func (c conn) finished() error {
	var msg [len(done)]byte
	if err := c.read(msg[:]); err != nil {
		return fmt.Errorf("client did not confirm the address: %w", err)
	}
	if string(msg[:]) != done {
		return fmt.Errorf("%w: confirmation %q", ErrProtocol, msg)
	}
	return nil
}

func (c conn) read(b []byte) error {
	if err := c.SetReadDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	if n, err := io.ReadFull(c, b); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%d of %d bytes, then the other end closed the connection: did it find its GID (-g)?", n, len(b))
		}
		return err
	}
	return nil
}
