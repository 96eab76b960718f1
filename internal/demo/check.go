package demo

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// Check is the outcome of one operation at one size in one direction.
type Check struct {
	Operation string  `json:"operation"`
	Bytes     int     `json:"bytes"`
	Direction string  `json:"direction"` // "a to b"
	Seconds   float64 `json:"seconds"`
	Error     string  `json:"error,omitempty"`
}

const (
	// guard is how many bytes around the target must not change.
	guard = 64
	// largest is the largest message.
	largest = 64 << 20
	// half is where the target half of the buffer begins: each end sends from the
	// first half of its own buffer into the second half of its peer's.
	half = largest + 4096
)

// transferOp is an operation that moves bytes.
type transferOp struct {
	name    string
	opcode  verbs.Opcode
	receive bool // consumes a receive at the peer
	large   bool // also with the largest message
}

var transferOps = []transferOp{
	{"SEND", verbs.OpSend, true, true},
	{"SEND with immediate", verbs.OpSendWithImm, true, false},
	{"RDMA WRITE", verbs.OpRDMAWrite, false, true},
	{"RDMA WRITE with immediate", verbs.OpRDMAWriteWithImm, true, false},
	{"RDMA READ", verbs.OpRDMARead, false, true},
}

// sizes are where segmentation has its edges.
func sizes(mtu int) []int {
	return []int{0, 1, 3, 4, 63, 64, mtu - 1, mtu, mtu + 1, 1<<20 - 1}
}

// check runs every operation in both directions and compares memory. It goes on
// until something fails: a queue pair in error says nothing about what follows.
func (d *demo) check(ctx context.Context) error {
	a, b, err := d.newPair(ctx, 2*half)
	if err != nil {
		return err
	}
	c := &checker{a: a, b: b, rnd: rand.NewChaCha8([32]byte{1})}
	err = c.all(ctx, d.report.PathMTU, d.Quick)
	d.report.Checks = c.checks
	for _, check := range c.checks {
		if check.Error == "" {
			d.report.Passed++
		} else {
			d.report.Failed++
		}
	}
	if cerr := a.close(); err == nil {
		err = cerr
	}
	if cerr := b.close(); err == nil {
		err = cerr
	}
	return err
}

// checker runs checks on a connection.
type checker struct {
	a, b   *rc
	rnd    *rand.ChaCha8
	checks []Check
	imm    uint32
}

func (c *checker) all(ctx context.Context, mtu int, quick bool) error {
	for _, op := range transferOps {
		list := sizes(mtu)
		if op.large && !quick {
			list = append(list, largest)
		}
		for _, n := range list {
			err := c.both(op.name, n, func(from, to *rc) error { return c.transfer(ctx, op, from, to, n) })
			if err != nil {
				return err
			}
		}
	}
	for _, op := range atomicOps {
		err := c.both(op.name, 8, func(from, to *rc) error { return c.atomic(ctx, op, from, to) })
		if err != nil {
			return err
		}
	}
	return nil
}

// both runs a check in both directions and writes down how it went.
func (c *checker) both(name string, n int, run func(from, to *rc) error) error {
	for _, ends := range [][2]*rc{{c.a, c.b}, {c.b, c.a}} {
		from, to := ends[0], ends[1]
		start := time.Now()
		err := run(from, to)
		check := Check{Operation: name, Bytes: n, Direction: from.name + " to " + to.name, Seconds: time.Since(start).Seconds()}
		if err != nil {
			check.Error = err.Error()
			c.checks = append(c.checks, check)
			return fmt.Errorf("%w: %s of %d bytes, %s: %w", ErrChecks, name, n, check.Direction, err)
		}
		c.checks = append(c.checks, check)
	}
	return nil
}

// transfer moves n random bytes and compares memory and completions. Source and
// target begin at odd places, which differ with the size.
func (c *checker) transfer(ctx context.Context, op transferOp, from, to *rc, n int) error {
	src, dst := guard+n%3, half+guard+n%5
	source, target := from, to
	if op.opcode == verbs.OpRDMARead {
		source, target = to, from
	}
	want := source.mr.Bytes()[src : src+n]
	got := target.mr.Bytes()[dst-guard : dst+n+guard]
	_, _ = c.rnd.Read(want) // never fails
	for i := range got {
		got[i] = 0xa5
	}
	c.imm++
	wr := verbs.SendWR{WRID: uint64(n), Opcode: op.opcode, Flags: verbs.SendSignaled, Imm: c.imm}
	switch op.opcode {
	case verbs.OpRDMARead:
		wr.RemoteAddr, wr.RKey = from.peer.Addr+uint64(src), from.peer.RKey
		wr.SGList = sges(from, dst, n)
	case verbs.OpRDMAWrite, verbs.OpRDMAWriteWithImm:
		wr.RemoteAddr, wr.RKey = from.peer.Addr+uint64(dst), from.peer.RKey
		wr.SGList = sges(from, src, n)
	default:
		wr.SGList = sges(from, src, n)
	}
	if op.receive {
		rwr := verbs.RecvWR{WRID: uint64(n)}
		if op.opcode != verbs.OpRDMAWriteWithImm {
			rwr.SGList = sges(to, dst, n)
		}
		if err := to.qp.PostRecv(&rwr); err != nil {
			return err
		}
	}
	if err := from.qp.PostSend(&wr); err != nil {
		return err
	}
	if wc, err := from.wait(ctx); err != nil {
		return err
	} else if wc.WRID != uint64(n) || (op.opcode == verbs.OpRDMARead && int(wc.ByteLen) != n) {
		return fmt.Errorf("sender's completion has wr_id %d and %d bytes, want %d", wc.WRID, wc.ByteLen, n)
	}
	if op.receive {
		if err := c.received(ctx, op, to, n); err != nil {
			return err
		}
	}
	return compare(got, want)
}

// received checks the completion of the receive.
func (c *checker) received(ctx context.Context, op transferOp, to *rc, n int) error {
	wc, err := to.wait(ctx)
	if err != nil {
		return err
	}
	if wc.WRID != uint64(n) || int(wc.ByteLen) != n {
		return fmt.Errorf("receiver's completion has wr_id %d and %d bytes, want %d", wc.WRID, wc.ByteLen, n)
	}
	withImm := op.opcode == verbs.OpSendWithImm || op.opcode == verbs.OpRDMAWriteWithImm
	if withImm != (wc.Flags&verbs.WCWithImm != 0) || (withImm && wc.Imm != c.imm) {
		return fmt.Errorf("receiver's immediate is %#x (flags %#x), want %#x", wc.Imm, wc.Flags, c.imm)
	}
	return nil
}

// sges is one entry, or none for an empty message.
func sges(r *rc, off, n int) []verbs.SGE {
	if n == 0 {
		return nil
	}
	return []verbs.SGE{r.mr.SGE(off, n)}
}

// compare looks for want between untouched guards.
func compare(got, want []byte) error {
	edge := bytes.Repeat([]byte{0xa5}, guard)
	inner := got[guard : guard+len(want)]
	if bytes.Equal(inner, want) && bytes.Equal(got[:guard], edge) && bytes.Equal(got[guard+len(want):], edge) {
		return nil
	}
	for i := range got {
		expect := byte(0xa5)
		if i >= guard && i < guard+len(want) {
			expect = want[i-guard]
		}
		if got[i] != expect {
			return fmt.Errorf("byte %d of %d is %#02x, want %#02x", i-guard, len(want), got[i], expect)
		}
	}
	return nil
}
