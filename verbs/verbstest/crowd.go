package verbstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// CrowdOptions say what the queue pairs of a crowd have. Zero fields mean the
// defaults given.
type CrowdOptions struct {
	Cap     verbs.QPCap // those of verbs.QPInitAttr
	Timeout uint8       // local ACK timeout exponent; 0: 14 (67 ms)
	Size    int         // bytes of a message; 0: 64
	Entries int         // of each end's completion queue, which all share; 0: 1024
	Limit   int         // connections at most, for which there is memory; 0: 1024
}

// Crowd is many reliable connections between two devices. At each end they share
// a protection domain, a completion queue and a region.
type Crowd struct {
	A, B CrowdEnd
	// Laggard is how many messages the slowest connection of the last Run had moved
	// when half of all were done, as a share of the average.
	Laggard float64

	o   CrowdOptions
	mtu verbs.MTU
}

// CrowdEnd is one side of a crowd. Connection i joins QPs[i] of both sides and
// moves the i-th part of A's memory to the same place at B.
type CrowdEnd struct {
	Dev *verbs.Context
	PD  *verbs.PD
	CQ  *verbs.CQ
	MR  *verbs.MR
	Buf []byte
	QPs []*verbs.QP
	gid verbs.GIDEntry
}

// NewCrowd makes a crowd without connections.
func NewCrowd(a, b *verbs.Context, o CrowdOptions) (*Crowd, error) {
	for _, d := range []struct {
		field *int
		value int
	}{{&o.Size, 64}, {&o.Entries, 1024}, {&o.Limit, 1024}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	c := &Crowd{A: CrowdEnd{Dev: a}, B: CrowdEnd{Dev: b}, o: o}
	var err error
	if c.mtu, err = commonMTU(a, b); err != nil {
		return nil, err
	}
	for _, e := range []*CrowdEnd{&c.A, &c.B} {
		if err := e.open(o); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	Fill(c.A.Buf, 1)
	return c, nil
}

func (e *CrowdEnd) open(o CrowdOptions) (err error) {
	if e.gid, err = e.Dev.DefaultGID(); err != nil {
		return err
	}
	if e.PD, err = e.Dev.AllocPD(); err != nil {
		return err
	}
	if e.CQ, err = e.Dev.CreateCQ(o.Entries); err != nil {
		return err
	}
	if e.Buf, err = e.Dev.AllocBuffer(o.Limit * o.Size); err != nil {
		return err
	}
	e.MR, err = e.PD.RegisterMemory(e.Buf, All)
	return err
}

// Connect adds n connections and brings them to RTS.
func (c *Crowd) Connect(n int) error {
	if have := len(c.A.QPs); have+n > c.o.Limit {
		return fmt.Errorf("%d connections and %d more: the crowd has memory for %d", have, n, c.o.Limit)
	}
	for range n {
		var ends [2]connect.Endpoint
		for i, e := range []*CrowdEnd{&c.A, &c.B} {
			qp, err := e.PD.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: e.CQ, RecvCQ: e.CQ, Cap: c.o.Cap})
			if err != nil {
				return err
			}
			e.QPs = append(e.QPs, qp)
			if err := connect.ToInit(qp, c.path(e)); err != nil {
				return err
			}
			ends[i] = connect.Local(qp, e.gid, e.MR)
		}
		for i, e := range []*CrowdEnd{&c.A, &c.B} {
			if err := connect.Connect(context.Background(), e.QPs[len(e.QPs)-1], c.path(e), ends[i], ends[1-i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Crowd) path(e *CrowdEnd) connect.Path {
	return connect.Path{MTU: c.mtu, SGIDIndex: e.gid.Index, Access: All, Timeout: c.o.Timeout}
}

// Run moves count messages from A to B over each of the connections from index
// first up to end, by WRITE or READ (op), depth of them outstanding on each at
// any time, and compares memory. When there are no completions at A, and between
// the first messages, it calls idle, if that is not nil.
func (c *Crowd) Run(ctx context.Context, op verbs.Opcode, first, end, count, depth int, idle func()) error {
	if n := (end - first) * min(count, depth); n > c.A.CQ.Size() {
		return fmt.Errorf("%d messages outstanding: the completion queue has %d entries", n, c.A.CQ.Size())
	}
	src, dst := &c.A, &c.B
	if op == verbs.OpRDMARead {
		src, dst = dst, src
	}
	from, to := first*c.o.Size, end*c.o.Size
	copy(src.Buf[from:to], c.A.Buf[from:to])
	want := bytes.Clone(src.Buf[from:to])
	clear(dst.Buf[from:to])
	if err := c.drive(ctx, op, first, end, count, depth, idle); err != nil {
		return err
	}
	if !bytes.Equal(dst.Buf[from:to], want) {
		return errors.New("memory differs")
	}
	return nil
}

func (c *Crowd) drive(ctx context.Context, op verbs.Opcode, first, end, count, depth int, idle func()) error {
	posted, done := make([]int, end-first), make([]int, end-first)
	total := (end - first) * count
	wrs := make([]verbs.SendWR, batch)
	sges := make([]verbs.SGE, batch)
	// post puts up to n more messages on connection i, with one doorbell.
	post := func(i, n int) error {
		n = min(n, count-posted[i-first])
		if n == 0 {
			return nil
		}
		off := i * c.o.Size
		for k := range n {
			sges[k] = c.A.MR.SGE(off, c.o.Size)
			wrs[k] = verbs.SendWR{
				WRID: uint64(i), Opcode: op, Flags: verbs.SendSignaled, SGList: sges[k : k+1],
				RemoteAddr: c.B.MR.Addr() + uint64(off), RKey: c.B.MR.RKey(),
			}
		}
		posted[i-first] += n
		if _, err := c.A.QPs[i].PostSendBatch(wrs[:n]); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
		return nil
	}
	for left := depth; left > 0; left -= batch {
		for i := first; i < end; i++ {
			if err := post(i, min(left, batch)); err != nil {
				return err
			}
			if idle != nil && i%batch == 0 {
				idle() // who drives the other end does it here: its answers are waited for
			}
		}
	}
	wcs := make([]verbs.WC, 4*batch)
	for left := total; left > 0; {
		n := c.A.CQ.Poll(wcs)
		if n == 0 {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("%d of %d messages have not completed: %w", left, total, err)
			}
			if idle != nil {
				idle()
			}
		}
		// Completions of one connection come in a row, mostly.
		for k := 0; k < n; {
			i, run := int(wcs[k].WRID), 0
			for ; k < n && run < batch && wcs[k].WRID == uint64(i); k, run = k+1, run+1 {
				if err := wcs[k].Err(); err != nil {
					return fmt.Errorf("connection %d: %w", i, err)
				}
			}
			done[i-first] += run
			if err := post(i, run); err != nil {
				return err
			}
		}
		if half := total / 2; left > half && left-n <= half {
			c.Laggard = float64(slices.Min(done)) * float64(end-first) / float64(total-left+n)
		}
		left -= n
	}
	return nil
}

// batch is how many work requests are posted with one doorbell at most.
const batch = 16

// Close frees everything.
func (c *Crowd) Close() error {
	var errs []error
	for _, e := range []*CrowdEnd{&c.A, &c.B} {
		for _, qp := range e.QPs {
			errs = append(errs, qp.Destroy())
		}
		if e.MR != nil {
			errs = append(errs, e.MR.Deregister())
		}
		if e.Buf != nil {
			errs = append(errs, e.Dev.FreeBuffer(e.Buf))
		}
		if e.CQ != nil {
			errs = append(errs, e.CQ.Destroy())
		}
		if e.PD != nil {
			errs = append(errs, e.PD.Dealloc())
		}
	}
	return errors.Join(errs...)
}
