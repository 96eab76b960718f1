package demo

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// atomicOp is an atomic operation on the value before and what has to come of it.
type atomicOp struct {
	name       string
	opcode     verbs.Opcode
	before     uint64
	compareAdd uint64
	swap       uint64
	after      uint64
}

const pattern = 0x0123_4567_89ab_cdef

var atomicOps = []atomicOp{
	{"compare and swap, equal", verbs.OpAtomicCmpAndSwp, pattern, pattern, ^uint64(0), ^uint64(0)},
	{"compare and swap, different", verbs.OpAtomicCmpAndSwp, pattern, pattern + 1, 7, pattern},
	{"fetch and add", verbs.OpAtomicFetchAdd, pattern, 1 << 32, 0, pattern + 1<<32},
	{"fetch and add, wrapping", verbs.OpAtomicFetchAdd, ^uint64(0), 2, 0, 1},
}

// atomic runs one atomic operation and compares the answer and the memory.
func (c *checker) atomic(ctx context.Context, op atomicOp, from, to *rc) error {
	const local, remote = 64, half + 64 // multiples of 8 from a page's start
	ne := binary.NativeEndian
	target := to.mr.Bytes()[remote : remote+8]
	ne.PutUint64(target, op.before)
	answer := from.mr.Bytes()[local : local+8]
	ne.PutUint64(answer, ^op.before)
	err := from.qp.PostSend(&verbs.SendWR{
		WRID: 8, Opcode: op.opcode, Flags: verbs.SendSignaled, SGList: sges(from, local, 8),
		RemoteAddr: from.peer.Addr + remote, RKey: from.peer.RKey,
		CompareAdd: op.compareAdd, Swap: op.swap,
	})
	if err != nil {
		return err
	}
	if _, err := from.wait(ctx); err != nil {
		return err
	}
	if got := ne.Uint64(answer); got != op.before {
		return fmt.Errorf("answer is %#x, the value was %#x", got, op.before)
	}
	if got := ne.Uint64(target); got != op.after {
		return fmt.Errorf("value is %#x, want %#x", got, op.after)
	}
	return nil
}
