package chaos_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// Sizes of a steady program's memory.
const (
	trafficSize = 32 << 10 // what messages may change, at the beginning of a buffer
	bufferSize  = 64 << 10
)

// canaries are memory that nobody may change: buffers of their own, which are
// registered with all rights, and the ends of buffers in use.
type canaries struct {
	pattern []byte
	mem     [][]byte
}

func (c *canaries) watch(b []byte) {
	copy(b, c.pattern)
	c.mem = append(c.mem, b)
}

func (c *canaries) check() error {
	for i, b := range c.mem {
		if bytes.Equal(b, c.pattern) {
			continue
		}
		for j := range b {
			if b[j] != c.pattern[j] {
				return fmt.Errorf("canary %d: byte %d is %#02x, it was %#02x", i, j, b[j], c.pattern[j])
			}
		}
	}
	return nil
}

// life is a program's connection between two devices, and its canaries.
type life struct {
	a, b *verbs.Context
	pair *verbstest.Pair
	canaries
}

// Local ACK timeouts of lives: how soon an end gives up that its peer is there.
const (
	steadfast = 17 // some seconds in all, which outlast what a busy machine does to either end
	alert     = 15 // a quarter of that, where peers do end
)

// newLife opens both devices and connects them. What fails midway ends with the
// process, or with close.
func newLife(r *rand.Rand, timeout uint8) (*life, error) {
	a, b, err := openBoth()
	if err != nil {
		return nil, err
	}
	l := &life{a: a, b: b}
	if err := l.connect(r, timeout); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *life) connect(r *rand.Rand, timeout uint8) (err error) {
	l.pattern = make([]byte, bufferSize-trafficSize)
	verbstest.Fill(l.pattern, r.Uint64())
	if err := l.guard(); err != nil {
		return err
	}
	l.pair, err = verbstest.NewRCPair(l.a, l.b, verbstest.Options{BufferSize: bufferSize, Timeout: timeout})
	if err != nil {
		return err
	}
	for _, e := range []*verbstest.End{l.pair.A, l.pair.B} {
		l.watch(e.Buf[trafficSize:])
	}
	return l.guard()
}

// guard makes a canary on each device.
func (l *life) guard() error {
	for _, dev := range []*verbs.Context{l.a, l.b} {
		pd, err := dev.AllocPD()
		if err != nil {
			return err
		}
		buf, err := dev.AllocBuffer(len(l.pattern))
		if err != nil {
			return err
		}
		if _, err := pd.RegisterMemory(buf, verbstest.All); err != nil {
			return err
		}
		l.watch(buf)
	}
	return nil
}

// step does some operation, in either direction, and compares all memory.
func (l *life) step(r *rand.Rand) error {
	p := l.pair
	if r.IntN(2) == 1 {
		p = p.Reverse()
	}
	n := 1 + r.IntN(trafficSize-4096)
	if r.IntN(2) == 1 {
		n = 1 + r.IntN(256)
	}
	var err error
	switch r.IntN(4) {
	case 0:
		err = p.Send(n, n%2 == 0)
	case 1:
		err = p.Write(n, n%2 == 0)
	case 2:
		err = p.Read(n)
	default:
		err = p.Atomics()
	}
	return errors.Join(err, l.check())
}

func (l *life) close() error { return errors.Join(l.a.Close(), l.b.Close()) }

// beSteady has traffic that has to go well until the test ends it.
func beSteady(ctx context.Context, a *answers) error {
	r := seedOfChild()
	l, err := newLife(r, steadfast)
	if err != nil {
		return err
	}
	var steps atomic.Int64
	a.by(map[string]func() string{"steps": func() string { return fmt.Sprint(steps.Load()) }})
	tell("up")
	for ctx.Err() == nil {
		if err := l.step(r); err != nil {
			return fmt.Errorf("step %d: %w", steps.Load(), err)
		}
		steps.Add(1)
	}
	return l.close()
}

// steps is how far a steady program is.
func (c *child) steps(t *testing.T) int {
	t.Helper()
	return number(t, c.ask(t, "steps"))
}

// goesOn fails the test unless the traffic of a steady program does.
func goesOn(t *testing.T, c *child) {
	t.Helper()
	before := c.steps(t)
	eventually(t, "the other program's traffic goes on", func() error {
		if n := c.steps(t); n <= before {
			return fmt.Errorf("it has done %d steps, %d before", n, before)
		}
		return nil
	})
}
