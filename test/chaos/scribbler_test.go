package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// A hostile program is quiet or does what it is for, as it is told. Quiet, it uses the
// CPU as much, so that what differs is what daemons suffer.
type mood struct {
	hostile atomic.Bool
	rounds  atomic.Int64 // of hostility
}

// answerers are the answers of a hostile program.
func (m *mood) answerers() map[string]func() string {
	set := func(v bool) func() string {
		return func() string { m.hostile.Store(v); return "ok" }
	}
	return map[string]func() string{
		"quiet": set(false), "hostile": set(true), "rounds": func() string { return fmt.Sprint(m.rounds.Load()) },
	}
}

const (
	roundsOfALife = 10
	pause         = 2 * time.Millisecond // between rounds, or nobody else gets the CPU
)

// beScribbler writes over all memory that it shares with daemons while its queue pairs
// of all types are at work, in lives of some rounds.
func beScribbler(ctx context.Context, a *answers) error {
	r := seedOfChild()
	p, err := newPen(r)
	if err != nil {
		return err
	}
	decoy, err := decoyAreas()
	if err != nil {
		return err
	}
	var m mood
	a.by(m.answerers())
	tell("up")
	for ctx.Err() == nil {
		if m.hostile.Load() {
			if err := scribble(ctx, p, r, &m); err != nil {
				return err
			}
			continue
		}
		for _, d := range decoy {
			p.spoil(d)
		}
		time.Sleep(pause)
	}
	return nil
}

// decoyAreas are as much memory of the process's own as it shares otherwise.
func decoyAreas() ([]area, error) {
	var all []area
	for range 6 {
		const n = 256 << 10
		_, at, err := mapAnonymous(n)
		if err != nil {
			return nil, err
		}
		all = append(all, area{start: at, n: n, writable: true})
	}
	return all, nil
}

// scribble is a life of a scribbler.
func scribble(ctx context.Context, p *pen, r *rand.Rand, m *mood) error {
	old, err := sharedAreas(nil)
	if err != nil {
		return err
	}
	before := map[area]bool{}
	for _, s := range old {
		before[s] = true
	}
	a, b, err := openBoth()
	if err != nil {
		return fmt.Errorf("a new life: %w", err)
	}
	// What there is to close may be beyond closing.
	defer func() { _, _ = a.Close(), b.Close() }()
	pairs, err := pairsOfAllTypes(a, b)
	if err != nil {
		return fmt.Errorf("a new life: %w", err)
	}
	areas, err := sharedAreas(before)
	if err != nil {
		return err
	}
	if len(areas) < 8 { // of each daemon: states, doorbells, queues, buffers
		return fmt.Errorf("there are only %d areas of shared memory: %v", len(areas), areas)
	}
	for range roundsOfALife {
		for range 3 {
			post(pairs, r)
		}
		for _, s := range areas {
			if s.writable {
				p.spoil(s)
			} else if err := p.tryReadOnly(s); err != nil {
				return err
			}
		}
		for range 3 {
			post(pairs, r)
		}
		m.rounds.Add(1)
		time.Sleep(pause)
		if ctx.Err() != nil {
			break
		}
	}
	runtime.KeepAlive(pairs) // and with them, their memory
	return nil
}

// pairsOfAllTypes are connected and at work.
func pairsOfAllTypes(a, b *verbs.Context) ([]*verbstest.Pair, error) {
	var pairs []*verbstest.Pair
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD, verbs.XRCSend} {
		p, err := verbstest.NewPair(typ, a, b, verbstest.Options{BufferSize: bufferSize, Depth: 32, Timeout: 12, Retry: 2})
		if err != nil {
			return nil, fmt.Errorf("%v: %w", typ, err)
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// post posts random work at all queue pairs and takes completions. Nothing of it needs
// to succeed.
func post(pairs []*verbstest.Pair, r *rand.Rand) {
	ops := []verbs.Opcode{verbs.OpSend, verbs.OpSendWithImm, verbs.OpRDMAWrite, verbs.OpRDMARead, verbs.OpAtomicFetchAdd, verbs.OpAtomicCmpAndSwp}
	for _, p := range pairs {
		if r.IntN(2) == 0 {
			p = p.Reverse()
		}
		n := r.IntN(bufferSize)
		wr := verbs.SendWR{
			WRID: r.Uint64(), Opcode: ops[r.IntN(len(ops))], SGList: []verbs.SGE{p.A.MR.SGE(0, n)},
			RemoteAddr: p.B.MR.Addr(), RKey: p.B.MR.RKey(), CompareAdd: 1,
		}
		p.Address(&wr)
		var wcs [16]verbs.WC
		_ = errors.Join(p.B.Recv(1, 0, n), p.A.Post(wr))
		p.A.CQ.Poll(wcs[:])
		p.B.CQ.Poll(wcs[:])
	}
}

// mapAnonymous maps n bytes and says where.
func mapAnonymous(n int) (b []byte, at uint64, err error) {
	if b, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		return nil, 0, err
	}
	return b, addressOf(b), nil
}
