package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
)

// partnerPort is where a partner that listens does.
const partnerPort = 7471

// beListener accepts connections at the first daemon, one after another, and tells how
// each ends.
func beListener(ctx context.Context, a *answers) error {
	dev, err := openAt(os.Getenv(dirAEnv))
	if err != nil {
		return err
	}
	defer dev.Close()
	l, err := cm.Listen(dev, os.Getenv(moreEnv), nil)
	if err != nil {
		return err
	}
	defer l.Close()
	a.by(nil)
	tell("up")
	for {
		conn, err := l.Accept(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		tell("connected")
		select {
		case <-conn.Done():
			tell("disconnected %v", conn.Err())
		case <-ctx.Done():
		}
		if err := conn.Close(); err != nil {
			return err
		}
	}
}

// beDialer connects at the first daemon to a listener, and stays.
func beDialer(ctx context.Context, a *answers) error {
	dev, err := openAt(os.Getenv(dirAEnv))
	if err != nil {
		return err
	}
	conn, err := cm.Dial(ctx, dev, os.Getenv(moreEnv), nil)
	if err != nil {
		return err
	}
	a.by(nil)
	tell("up")
	<-ctx.Done()
	return errors.Join(conn.Close(), dev.Close())
}

// The daemon tells the peer of a program that is killed: its connection ends at once, and
// not when it is used next.
func TestPeersLearnOfAKill(t *testing.T) {
	r := newRandom(t)
	h := newHosts(t)
	at := fmt.Sprintf("192.0.2.1:%d", partnerPort)
	listener := programAt(t, "listener", h.a, h.b, r.Uint64(), at)
	listener.wait(t, "up")
	var before []census // after the first, with which daemons make what is theirs
	for i := range soak(6, 100) {
		dialer := programAt(t, "dialer", h.b, h.a, r.Uint64(), at)
		dialer.wait(t, "up")
		listener.wait(t, "connected")
		time.Sleep(between(r, 0, 20*time.Millisecond))
		begin := time.Now()
		dialer.kill()
		listener.wait(t, "disconnected")
		if took := time.Since(begin); took > fatalWithin {
			t.Errorf("kill %d: the peer learned of it after %v", i, took)
		}
		if before == nil {
			time.Sleep(500 * time.Millisecond)
			before = []census{take(t, h.a), take(t, h.b)}
			t.Logf("before: a %v, b %v", before[0], before[1])
			if n := before[1]["client"]; n != 0 {
				t.Fatalf("daemon b has %d clients", n)
			}
		}
		settle(t, h.a, before[0])
		settle(t, h.b, before[1])
	}
	listener.stop(t)
	h.stop(t)
}
