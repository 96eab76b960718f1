package pingpong

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// entries is the number of addresses in a message of ibv_srq_pingpong, whatever
// the number of queue pairs is; those without one are zero bytes.
const entries = 256

// ResultSRQ is how a run over a shared receive queue went: Local and Remote of
// Result are the ends of the first queue pair, these of all.
type ResultSRQ struct {
	Result
	Locals, Remotes []connect.Endpoint
}

// RunSRQ is one side of ibv_srq_pingpong: o.QPs reliable connections whose
// receives come from one queue. Messages over all of them together count.
func RunSRQ(ctx context.Context, o Options) (res *ResultSRQ, err error) {
	if err := o.checkSRQ(); err != nil {
		return nil, err
	}
	s := &shared{side: side{Options: o, service: verbs.RC}}
	defer func() {
		err = errors.Join(err, s.close())
		if ctx.Err() != nil && err != nil {
			err = ctx.Err()
		}
	}()
	elapsed, err := s.meet(ctx, s)
	if err != nil {
		return nil, err
	}
	res = &ResultSRQ{Locals: s.owns, Remotes: s.peers, Result: Result{
		Local: s.owns[0], Remote: s.peers[0], Iters: o.Iters, Bytes: int64(o.Size) * int64(o.Iters) * 2,
		Elapsed: elapsed, ValidationPage: -1,
	}}
	if o.Validate && o.Server == "" {
		res.ValidationPage = firstBadPage(s.mr.Bytes())
	}
	s.settle()
	return res, s.printSummary(&res.Result, s.owns, s.peers)
}

// shared is one side of a run over a shared receive queue.
type shared struct {
	side
	srq         *verbs.SRQ
	qps         []*verbs.QP
	owns, peers []connect.Endpoint
	recvs       []verbs.RecvWR // a batch of them
}

// prepare makes the queue pairs and posts all receives.
func (s *shared) prepare(tcp conn) error {
	err := s.setUp(tcp, s.RxDepth+s.QPs)
	if err != nil {
		return err
	}
	clear(s.mr.Bytes()) // this program's buffer has zeros
	if s.srq, err = s.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: s.RxDepth}); err != nil {
		return err
	}
	for range s.QPs {
		// The number of a queue pair in the list comes back in its completions.
		qp, err := s.pd.CreateQP(&verbs.QPInitAttr{
			Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq, SRQ: s.srq,
			Cap: verbs.QPCap{MaxSendWR: 1}, Context: uint64(len(s.qps)),
		})
		if err != nil {
			return err
		}
		s.qps = append(s.qps, qp)
		if err := connect.ToInit(qp, s.path); err != nil {
			return err
		}
		s.owns = append(s.owns, connect.Local(qp, s.gid, nil))
	}
	s.recvs = make([]verbs.RecvWR, s.RxDepth)
	sges := []verbs.SGE{s.mr.SGE(0, s.Size)}
	for i := range s.recvs {
		s.recvs[i] = verbs.RecvWR{WRID: recvID, SGList: sges}
	}
	return s.receive(s.RxDepth)
}

// receive posts n receives.
func (s *shared) receive(n int) error {
	_, err := s.srq.PostRecvBatch(s.recvs[:n])
	return err
}

// handshake exchanges the addresses of all queue pairs, in the order of that of
// one.
func (s *shared) handshake(ctx context.Context, tcp conn) error {
	for _, e := range s.owns {
		s.printAddress("  local address:  ", e, false)
	}
	client := s.Server != ""
	if client {
		if err := tcp.sendAll(s.owns); err != nil {
			return err
		}
	}
	var err error
	if s.peers, err = tcp.receiveAll(s.QPs); err != nil {
		return err
	}
	if client {
		if err := tcp.finish(); err != nil {
			return err
		}
	}
	for i, qp := range s.qps {
		// As in the C program the address of the first is that of all.
		to := s.peers[i]
		to.GID = s.peers[0].GID
		if err := connect.Connect(ctx, qp, s.path, s.owns[i], to); err != nil {
			return err
		}
	}
	if !client {
		if err := tcp.sendAll(s.owns); err != nil {
			return err
		}
		if err := tcp.finished(); err != nil {
			return err
		}
	}
	for _, e := range s.peers {
		s.printAddress("  remote address: ", e, false)
	}
	return nil
}

// sendAll sends a message of all entries with one write.
func (c conn) sendAll(ends []connect.Endpoint) error {
	msg := make([]byte, 0, entries*addressLen)
	for _, e := range ends {
		msg = append(msg, addressOf(e).message()...)
	}
	if _, err := c.Write(msg[:cap(msg)]); err != nil {
		return fmt.Errorf("couldn't send local addresses: %w", err)
	}
	return nil
}

// receiveAll reads a message and returns its first n entries.
func (c conn) receiveAll(n int) ([]connect.Endpoint, error) {
	msg := make([]byte, entries*addressLen)
	if err := c.read(msg); err != nil {
		return nil, fmt.Errorf("couldn't read remote addresses: %w", err)
	}
	ends := make([]connect.Endpoint, n)
	for i := range ends {
		entry := msg[i*addressLen : (i+1)*addressLen]
		if bytes.Count(entry, []byte{0}) == addressLen {
			return nil, fmt.Errorf("%w: it has %d queue pairs, this end %d: give both the same -q", ErrProtocol, i, n)
		}
		a, err := parseAddress(entry)
		if err != nil {
			return nil, err
		}
		if ends[i], err = endpointOf(a); err != nil {
			return nil, err
		}
	}
	return ends, nil
}

// exchange sends and receives all messages. A queue pair sends again when its last
// message has completed and one has arrived; those that have begun when the count
// is full still go.
func (s *shared) exchange(ctx context.Context) error {
	var sent, received int
	posted := s.RxDepth // receives outstanding
	pending := make([]int, s.QPs)
	send := func(i int) error {
		pending[i] = recvID | sendID
		return s.qps[i].PostSend(&verbs.SendWR{
			WRID: sendID, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: s.recvs[0].SGList,
		})
	}
	for i := range s.qps {
		pending[i] = recvID
		if s.Server != "" {
			if err := send(i); err != nil {
				return err
			}
		}
	}
	wcs := make([]verbs.WC, s.QPs+s.RxDepth)
	for sent < s.Iters || received < s.Iters {
		n, err := s.completions(ctx, wcs)
		if err != nil {
			return err
		}
		for k := range wcs[:n] {
			wc := &wcs[k]
			if err := failure(wc); err != nil {
				return err
			}
			switch wc.WRID {
			case sendID:
				sent++
			default:
				received++
				if posted--; posted <= s.QPs {
					if err := s.receive(s.RxDepth - posted); err != nil {
						return err
					}
					posted = s.RxDepth
				}
			}
			i := wc.QPContext
			pending[i] &^= int(wc.WRID)
			if sent < s.Iters && pending[i] == 0 {
				if err := send(int(i)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
