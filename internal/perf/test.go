package perf

import (
	"errors"
	"fmt"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// ErrParams reports parameters that no test can run with.
var ErrParams = errors.New("bad test parameters")

// Op is the operation that a test measures.
type Op string

// Operations.
const (
	Send   Op = "send"
	Write  Op = "write"
	Read   Op = "read"
	Atomic Op = "atomic"
)

// Ops are all operations, in the order in which help texts list them.
var Ops = []Op{Send, Write, Read, Atomic}

// Test is what is measured of an operation.
type Test struct {
	Op      Op   `json:"op"`
	Latency bool `json:"latency"` // else bandwidth
}

// Tests are all tests, bandwidth first.
func Tests() []Test {
	var all []Test
	for _, latency := range []bool{false, true} {
		for _, op := range Ops {
			all = append(all, Test{op, latency})
		}
	}
	return all
}

// String is the name of the test's command: "write-bw".
func (t Test) String() string {
	if t.Latency {
		return string(t.Op) + "-lat"
	}
	return string(t.Op) + "-bw"
}

// Title is the headline of the test's output, as perftest prints it.
func (t Test) Title() string {
	name := map[Op]string{Send: "Send", Write: "RDMA_Write", Read: "RDMA_Read", Atomic: "Atomic FETCH_AND_ADD"}[t.Op]
	if t.Latency {
		return name + " Latency Test"
	}
	return name + " BW Test"
}

func (t Test) check() error {
	for _, known := range Tests() {
		if t == known {
			return nil
		}
	}
	return fmt.Errorf("%w: no test %q", ErrParams, t.String())
}

// pingPong reports whether both ends send in turns; a sample is half a round
// trip then, else a whole one.
func (t Test) pingPong() bool { return t.Latency && (t.Op == Send || t.Op == Write) }

func (t Test) opcode() verbs.Opcode {
	switch t.Op {
	case Write:
		return verbs.OpRDMAWrite
	case Read:
		return verbs.OpRDMARead
	case Atomic:
		return verbs.OpAtomicFetchAdd
	default:
		return verbs.OpSend
	}
}
