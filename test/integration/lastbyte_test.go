package integration_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestLastByte polls on the last byte of messages, as programs do that wait for
// RDMA without completions. All other bytes must be there when it is, whichever
// operation brings them, wherever the message ends, and whether the program
// drives the device or nobody but its background goroutine does.
func TestLastByte(t *testing.T) {
	r := newRig(t, netns.PairOptions{MTU: 9000}, nil)
	for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpSend, verbs.OpRDMARead} {
		for _, drives := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/drives %v", op, drives), func(t *testing.T) {
				l := lastByte{p: r.pair(t, verbstest.Options{BufferSize: 128 << 10}), op: op, drives: drives}
				m := l.p.MTU.Bytes()
				sizes := []int{1, 2, 7, 8, 9, 63, 64, 1000, m - 1, m, m + 1, m + 3, 2 * m, 10_000, 65_537}
				budget := time.Duration(soak(700, 10_000)) * time.Millisecond
				round := 0
				for end := time.Now().Add(budget); time.Now().Before(end); round++ {
					// 11 and 15 have no common divisor: each size meets each offset.
					n, off := sizes[round%len(sizes)], round%11
					if err := l.round(byte(round%255)+1, off, n); err != nil {
						t.Fatalf("round %d, %d bytes at offset %d: %v", round, n, off, err)
					}
				}
				if l.waited == 0 {
					t.Errorf("in %d rounds the message was always there before the first look", round)
				}
				t.Logf("%d rounds, %d of them waited", round, l.waited)
			})
		}
	}
}

// lastByte moves messages of one operation and watches where they arrive.
type lastByte struct {
	p      *verbstest.Pair
	op     verbs.Opcode
	drives bool // call Progress while waiting
	waited int  // rounds in which the last byte was not there at once
}

// round moves n bytes of the value mark, which the target has not held since a
// round long ago.
func (l *lastByte) round(mark byte, off, n int) error {
	src, dst := l.p.A, l.p.B
	if l.op == verbs.OpRDMARead {
		src, dst = dst, src
	}
	target := dst.Buf[off : off+n]
	for i := range src.Buf[:n] {
		src.Buf[i] = mark
	}
	clear(target)
	if l.op == verbs.OpSend {
		if err := dst.Recv(2, off, n); err != nil {
			return err
		}
	}
	wr := verbs.SendWR{WRID: 1, Opcode: l.op, SGList: []verbs.SGE{src.MR.SGE(0, n)}, RemoteAddr: dst.MR.Addr() + uint64(off), RKey: dst.MR.RKey()}
	done := verbs.WCRDMAWrite
	switch l.op {
	case verbs.OpSend:
		done = verbs.WCSend
	case verbs.OpRDMARead:
		wr.SGList, wr.RemoteAddr, wr.RKey = []verbs.SGE{dst.MR.SGE(off, n)}, src.MR.Addr(), src.MR.RKey()
		done = verbs.WCRDMARead
	default: // an RDMA WRITE, as prepared above
	}
	if err := l.p.A.Post(wr); err != nil {
		return err
	}
	if err := l.watch(dst, target, mark); err != nil {
		return err
	}
	if l.op == verbs.OpSend {
		if _, err := dst.Done(2, verbs.WCRecv); err != nil {
			return err
		}
	}
	_, err := l.p.A.Done(1, done)
	return err
}

// watch waits for the last byte and looks at the others at once.
func (l *lastByte) watch(at *verbstest.End, target []byte, mark byte) error {
	last := len(target) - 1
	if byteAt(target, last) != mark {
		l.waited++
	}
	for start, looks := time.Now(), 1; byteAt(target, last) != mark; looks++ {
		if l.drives {
			at.Dev.Progress()
		} else {
			runtime.Gosched()
		}
		if looks%1024 == 0 && time.Since(start) > verbstest.Patience {
			return fmt.Errorf("no last byte within %v", verbstest.Patience)
		}
	}
	for i, b := range target {
		if b != mark {
			return fmt.Errorf("the last byte came before byte %d of %d", i, len(target))
		}
	}
	return nil
}
