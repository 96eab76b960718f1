package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// beVanisher takes memory away while messages go there: its own, which is unmapped or
// protected, and shared pages, into which holes are punched. Quiet, it has the same
// traffic.
func beVanisher(ctx context.Context, a *answers) error {
	r := seedOfChild()
	var m mood
	a.by(m.answerers())
	tell("up")
	for ctx.Err() == nil {
		hostile := m.hostile.Load()
		if err := vanish(r, hostile); err != nil {
			return err
		}
		if hostile {
			m.rounds.Add(1)
		}
		time.Sleep(pause)
	}
	return nil
}

const vanishing = 1 << 20

// vanish is a life of a vanisher: traffic with memory that goes, if it is hostile.
func vanish(r *rand.Rand, hostile bool) error {
	a, b, err := openBoth()
	if err != nil {
		return err
	}
	defer func() { _, _ = a.Close(), b.Close() }()
	p, err := verbstest.NewRCPair(a, b, verbstest.Options{BufferSize: vanishing, Timeout: 12, Retry: 2})
	if err != nil {
		return err
	}
	own, at, err := mapAnonymous(vanishing)
	if err != nil {
		return err
	}
	mr, err := p.B.PD.RegisterMemory(own, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if !hostile {
		return errors.Join(useVanishing(p, mr, at), mr.Deregister(), unix.Munmap(own))
	}
	wg.Go(func() {
		time.Sleep(between(r, 0, 3*time.Millisecond))
		// The slices are not used any more: their memory is.
		switch r.IntN(4) {
		case 0:
			_ = unix.Munmap(own)
		case 1:
			_ = unix.Mprotect(own, unix.PROT_NONE)
		case 2:
			_ = unix.Madvise(own, unix.MADV_DONTNEED)
		default:
			hole := addressOf(p.B.Buf)
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(hole), vanishing, unix.MADV_REMOVE)
		}
	})
	return useVanishing(p, mr, at)
}

// useVanishing writes to and reads from memory of the pair's other end. A request may
// fail, and has to end.
func useVanishing(p *verbstest.Pair, mr *verbs.MR, at uint64) error {
	for i := range 24 {
		wr := verbs.SendWR{WRID: uint64(i), Opcode: verbs.OpRDMAWrite, SGList: []verbs.SGE{p.A.MR.SGE(0, vanishing/4)}, RemoteAddr: at, RKey: mr.RKey()}
		if i%2 == 1 {
			wr.Opcode = verbs.OpRDMARead
		}
		if i%4 >= 2 {
			wr.RemoteAddr, wr.RKey = p.B.MR.Addr(), p.B.MR.RKey()
		}
		if err := p.A.Post(wr); err != nil {
			return fmt.Errorf("post: %w", err)
		}
		wc, err := p.A.Next()
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("request %d has no end: %w", i, err)
		}
		if err != nil {
			return err
		}
		if wc.Err() != nil {
			return nil // the queue pair is in error now
		}
	}
	return nil
}
