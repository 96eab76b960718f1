package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// tcpPair opens a TCP connection from a to b over the link that the devices are
// on: its frames pass through the XDP programs to the kernel.
func (d *demo) tcpPair(ctx context.Context) (a, b net.Conn, err error) {
	var l net.Listener
	err = d.b.end.NS.Do(func() (err error) {
		var lc net.ListenConfig
		l, err = lc.Listen(ctx, "tcp", netip.AddrPortFrom(d.b.end.Addr(), 0).String())
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("listen over TCP: %w", err)
	}
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	accepted := make(chan error, 1)
	go func() {
		var err error
		b, err = l.Accept()
		accepted <- err
	}()
	err = d.a.end.NS.Do(func() (err error) {
		// For a literal address the dialer makes its socket on this thread.
		dialer := net.Dialer{Timeout: 5 * time.Second}
		a, err = dialer.DialContext(ctx, "tcp", l.Addr().String())
		return err
	})
	if err != nil {
		l.Close()
		<-accepted
		return nil, nil, fmt.Errorf("connect over TCP: %w", err)
	}
	if err := <-accepted; err != nil {
		a.Close()
		return nil, nil, fmt.Errorf("accept over TCP: %w", err)
	}
	return a, b, nil
}

// tcpLatency sends messages of size bytes in turns and returns half the round
// trips, in nanoseconds.
func (d *demo) tcpLatency(ctx context.Context, size, n int) ([]int64, error) {
	a, b, err := d.tcpPair(ctx)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	defer b.Close()
	defer context.AfterFunc(ctx, func() { a.Close() })()
	answered := make(chan error, 1)
	go func() {
		defer b.Close()
		buf := make([]byte, size)
		var err error
		for err == nil {
			err = swap(b, buf, false)
		}
		if errors.Is(err, io.EOF) {
			err = nil // the other end has enough
		}
		answered <- err
	}()
	buf := make([]byte, size)
	samples := make([]int64, 0, n)
	warm := n / 10
	begin := time.Now()
	for i := 0; i < warm+n && time.Since(begin) < enough; i++ {
		start := time.Now()
		if err := swap(a, buf, true); err != nil {
			a.Close()
			return nil, errors.Join(err, <-answered)
		}
		if i >= warm {
			samples = append(samples, int64(time.Since(start))/2)
		}
	}
	a.Close()
	return samples, <-answered
}

// swap sends a message and receives one, or the other way round.
func swap(c net.Conn, buf []byte, first bool) error {
	if first {
		if _, err := c.Write(buf); err != nil {
			return err
		}
	}
	if _, err := io.ReadFull(c, buf); err != nil {
		return err
	}
	if !first {
		if _, err := c.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

// tcpBandwidth sends messages of size bytes for a time and returns the bytes per
// second that arrived.
func (d *demo) tcpBandwidth(ctx context.Context, size int, duration time.Duration) (float64, error) {
	a, b, err := d.tcpPair(ctx)
	if err != nil {
		return 0, err
	}
	defer a.Close()
	defer b.Close()
	defer context.AfterFunc(ctx, func() { a.Close(); b.Close() })()
	type outcome struct {
		bytes int64
		err   error
	}
	received := make(chan outcome, 1)
	go func() {
		var o outcome
		buf := make([]byte, size)
		for o.err == nil {
			var n int
			n, o.err = b.Read(buf)
			o.bytes += int64(n)
		}
		if errors.Is(o.err, io.EOF) {
			o.err = nil
		}
		received <- o
	}()
	buf := make([]byte, size)
	start := time.Now()
	for time.Since(start) < duration {
		if _, err := a.Write(buf); err != nil {
			a.Close()
			<-received
			return 0, fmt.Errorf("send over TCP: %w", err)
		}
	}
	a.Close()
	o := <-received
	return float64(o.bytes) / time.Since(start).Seconds(), o.err
}
