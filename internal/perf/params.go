package perf

import (
	"fmt"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Params are what both ends of a test agree on; the client sends them to the
// server. A zero field means the default that is named.
type Params struct {
	Test          Test          `json:"test"`
	Sizes         []int         `json:"sizes"`         // bytes of a message; 65536, latency 2, atomics 8
	Iters         int           `json:"iters"`         // messages of each size and queue pair; 1000, WRITE bandwidth 5000
	Duration      time.Duration `json:"duration_ns"`   // run this long instead of Iters messages
	QPs           int           `json:"qps"`           // queue pairs; 1
	TxDepth       int           `json:"tx_depth"`      // requests outstanding on a queue pair; 128, latency 1
	RxDepth       int           `json:"rx_depth"`      // receives posted on a queue pair; 512
	PostList      int           `json:"post_list"`     // requests posted together; 1
	CQMod         int           `json:"cq_mod"`        // requests for each completion; 100
	Inline        int           `json:"inline"`        // largest message sent inline, bytes; 0
	Outstanding   int           `json:"outstanding"`   // READs and atomics in flight on a queue pair; 16
	MTU           int           `json:"mtu"`           // path MTU, bytes; the largest that both links carry
	TrafficClass  uint8         `json:"traffic_class"` // whole TOS or traffic class byte
	SL            uint8         `json:"sl"`            // service level, 0 to 7
	Timeout       uint8         `json:"qp_timeout"`    // local ACK timeout, exponent of 4.096 us, up to 31; 14, with RDMACM the manager's
	Bidirectional bool          `json:"bidirectional"` // both ends send; bandwidth tests
	RDMACM        bool          `json:"rdma_cm"`       // connect over the connection manager
	AllSizes      bool          `json:"-"`             // 2 bytes to 8 MiB in powers of two
}

const (
	minIters   = 5
	maxQPs     = 4096
	maxDepth   = 16384
	maxMessage = 1 << 30 // the buffer holds two messages
	maxTime    = 24 * time.Hour
	allFrom    = 2
	allTo      = 8 << 20
)

// Complete fills in defaults and checks everything. What a client sent to a
// server goes through it too.
func (p Params) Complete() (Params, error) {
	if err := p.Test.check(); err != nil {
		return p, err
	}
	p.defaults()
	ranges := []struct {
		name          string
		v, low, above int
	}{
		{"iterations (-n)", p.Iters, minIters, 1 << 31},
		{"queue pairs (-q)", p.QPs, 1, maxQPs + 1},
		{"tx-depth (-t)", p.TxDepth, 1, maxDepth + 1},
		{"rx-depth (-r)", p.RxDepth, 1, maxDepth + 1},
		{"post list (-l)", p.PostList, 1, p.TxDepth + 1},
		{"cq-mod (-Q)", p.CQMod, 1, maxDepth + 1},
		{"inline size (-I)", p.Inline, 0, verbs.MaxInline + 1},
		{"outstanding READs and atomics (-o)", p.Outstanding, 1, verbs.MaxRDAtomic + 1},
		{"service level (-S)", int(p.SL), 0, 8},
		{"timeout (-u)", int(p.Timeout), 0, 32},
	}
	for _, r := range ranges {
		if r.v < r.low || r.v >= r.above {
			return p, fmt.Errorf("%w: %s is %d: %d to %d are possible", ErrParams, r.name, r.v, r.low, r.above-1)
		}
	}
	if p.Duration < 0 || p.Duration > maxTime {
		return p, fmt.Errorf("%w: duration (-D) is %v: up to %v is possible", ErrParams, p.Duration, maxTime)
	}
	if p.MTU != 0 && connect.PathMTU(p.MTU) == 0 {
		return p, fmt.Errorf("%w: MTU (-m) is %d: 256, 512, 1024, 2048 and 4096 are possible", ErrParams, p.MTU)
	}
	if p.Bidirectional && p.Test.Latency {
		return p, fmt.Errorf("%w: -b is for bandwidth tests", ErrParams)
	}
	if p.Test.Latency && p.QPs != 1 {
		return p, fmt.Errorf("%w: a latency test has one queue pair, -q is %d", ErrParams, p.QPs)
	}
	if p.RDMACM && p.SL != 0 {
		return p, fmt.Errorf("%w: the connection manager's queue pairs have service level 0, -S is %d: leave out -S or -R", ErrParams, p.SL)
	}
	if p.RDMACM && p.Timeout != 0 {
		return p, fmt.Errorf("%w: with -R the connection manager sets the timeout: leave out -u", ErrParams)
	}
	// A full window has to contain a request that generates a completion.
	p.CQMod = min(p.CQMod, p.TxDepth-p.PostList+1)
	return p, p.checkSizes()
}

func (p *Params) defaults() {
	size, iters, depth := 65536, 1000, 128
	switch {
	case p.Test.Latency:
		size, depth = 2, 1
	case p.Test.Op == Write:
		iters = 5000
	}
	if p.Test.Op == Atomic {
		size = 8
	}
	if len(p.Sizes) == 0 {
		p.Sizes = []int{size}
	}
	if p.AllSizes {
		p.Sizes = nil
		for n := allFrom; n <= allTo; n *= 2 {
			p.Sizes = append(p.Sizes, n)
		}
	}
	for _, d := range []struct {
		field *int
		value int
	}{
		{&p.Iters, iters}, {&p.QPs, 1}, {&p.TxDepth, depth}, {&p.RxDepth, 512},
		{&p.PostList, 1}, {&p.CQMod, 100}, {&p.Outstanding, 16},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
}

func (p *Params) checkSizes() error {
	low := 0
	if p.Test.Latency && p.Test.Op == Write {
		low = 1 // the receiver polls on the last byte
	}
	if len(p.Sizes) > 64 {
		return fmt.Errorf("%w: %d message sizes: at most 64", ErrParams, len(p.Sizes))
	}
	for _, n := range p.Sizes {
		if p.Test.Op == Atomic && n != 8 {
			return fmt.Errorf("%w: atomics have 8 bytes, -s is %d", ErrParams, n)
		}
		if n < low || n > maxMessage {
			return fmt.Errorf("%w: message size (-s) is %d: %d to %d bytes are possible", ErrParams, n, low, maxMessage)
		}
	}
	return nil
}

// largest is the size of the largest message.
func (p *Params) largest() int {
	most := 0
	for _, n := range p.Sizes {
		most = max(most, n)
	}
	return most
}
