package pingpong

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Result is how a run went.
type Result struct {
	Local, Remote  connect.Endpoint
	Iters          int
	Bytes          int64 // both ways
	Elapsed        time.Duration
	ValidationPage int // first page with a wrong byte, -1 if none
}

// Run is one side: the protocol, options and output of ibv_rc_pingpong,
// ibv_uc_pingpong or ibv_ud_pingpong, as service is RC, UC or UD. It returns when
// all messages went both ways, something failed, or ctx ended; of UC and UD, a
// message that is lost is waited for until then.
func Run(ctx context.Context, service verbs.QPType, o Options) (res *Result, err error) {
	if err := o.check(service); err != nil {
		return nil, err
	}
	s := &side{Options: o, service: service}
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
	res = &Result{
		Local: s.own, Remote: s.peer, Iters: o.Iters, Bytes: int64(o.Size) * int64(o.Iters) * 2,
		Elapsed: elapsed, ValidationPage: -1,
	}
	if o.Validate && o.Server == "" {
		res.ValidationPage = firstBadPage(s.mr.Bytes()[s.front():])
	}
	s.settle()
	return res, s.printResult(res)
}

// protocol is what differs between the programs.
type protocol interface {
	// prepare makes the queue pairs and posts all receives.
	prepare(tcp conn) error
	// handshake exchanges addresses and connects.
	handshake(ctx context.Context, tcp conn) error
	// exchange sends and receives all messages.
	exchange(ctx context.Context) error
}

// meet finds the other end and runs p with it; it returns how long the exchange
// took.
func (s *side) meet(ctx context.Context, p protocol) (time.Duration, error) {
	if s.Interface != "" {
		if err := s.open(s.Interface); err != nil {
			return 0, err
		}
	}
	tcp, err := s.join(ctx)
	if err != nil {
		return 0, err
	}
	defer tcp.Close()
	defer context.AfterFunc(ctx, func() { tcp.Close() })()
	if err := p.prepare(tcp); err != nil {
		return 0, err
	}
	if err := p.handshake(ctx, tcp); err != nil {
		return 0, err
	}
	tcp.Close()
	start := time.Now()
	err = p.exchange(ctx)
	return time.Since(start), err
}

// side is one side of a run.
type side struct {
	Options
	service   verbs.QPType
	dev       *verbs.Context
	pd        *verbs.PD
	cq        *verbs.CQ
	mr        *verbs.MR
	qp        *verbs.QP
	ah        *verbs.AH // UD: leads to the peer
	gid       verbs.GIDEntry
	path      connect.Path
	own, peer connect.Endpoint
}

// front is the number of bytes before the payload in a receive buffer.
func (s *side) front() int {
	if s.service == verbs.UD {
		return verbs.GRHLen
	}
	return 0
}

func (s *side) join(ctx context.Context) (conn, error) {
	if s.Server != "" {
		return dial(ctx, s.Server, s.Port)
	}
	return accept(ctx, s.Port, s.Listening)
}

func (s *side) open(ifname string) (err error) {
	s.dev, err = s.Open(ifname)
	return err
}

// setUp opens the device that leads to the other end, and makes what queue pairs
// need: the buffer, and a queue for the completions of n work requests.
func (s *side) setUp(tcp conn, n int) error {
	local := netip.Addr{}
	if a, ok := tcp.LocalAddr().(*net.TCPAddr); ok {
		local = a.AddrPort().Addr().Unmap().WithZone("")
	}
	if s.dev == nil {
		ifname, err := connect.InterfaceOf(local)
		if err != nil {
			return err
		}
		if err := s.open(ifname); err != nil {
			return err
		}
	}
	var err error
	if s.gid, err = connect.GID(s.dev, s.GIDIndex, local); err != nil {
		return err
	}
	if err := s.checkSize(); err != nil {
		return err
	}
	if s.pd, err = s.dev.AllocPD(); err != nil {
		return err
	}
	// All messages, both ways, are in one place, as in the C programs.
	buf, err := s.dev.AllocBuffer(s.front() + s.Size)
	if err != nil {
		return err
	}
	fill(buf[s.front():], s.Validate && s.Server != "")
	if s.mr, err = s.pd.RegisterMemory(buf, verbs.AccessLocalWrite); err != nil {
		return err
	}
	s.path = connect.Path{MTU: s.mtu(), SGIDIndex: s.gid.Index, SL: uint8(s.SL), RDAtomic: 1, QKey: qkey}
	s.cq, err = s.dev.CreateCQ(n)
	return err
}

// prepare makes the queue pair and posts all receives: they have to be there
// before the other end hears of it.
func (s *side) prepare(tcp conn) error {
	err := s.setUp(tcp, s.RxDepth+1)
	if err != nil {
		return err
	}
	s.qp, err = s.pd.CreateQP(&verbs.QPInitAttr{
		Type: s.service, SendCQ: s.cq, RecvCQ: s.cq,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: s.RxDepth},
	})
	if err != nil {
		return err
	}
	if err := connect.ToInit(s.qp, s.path); err != nil {
		return err
	}
	s.own = connect.Local(s.qp, s.gid, nil)
	return s.postReceives(s.RxDepth)
}

// qkey is the Q_Key of ibv_ud_pingpong.
const qkey = 0x11111111

// checkSize refuses datagrams that the port does not carry.
func (s *side) checkSize() error {
	if s.service != verbs.UD {
		return nil
	}
	port, err := s.dev.QueryPort()
	if err != nil {
		return err
	}
	if m := port.ActiveMTU.Bytes(); s.Size > m {
		return fmt.Errorf("requested size (-s) is %d: larger than the port MTU of %d, which follows from the interface's MTU of %d", s.Size, m, port.LinkMTU)
	}
	return nil
}

// connect makes the queue pair ready to send to the peer.
func (s *side) connect(ctx context.Context) (err error) {
	if s.service == verbs.UD {
		if s.ah, err = connect.AH(ctx, s.pd, s.path, s.peer); err != nil {
			return err
		}
	}
	return connect.Connect(ctx, s.qp, s.path, s.own, s.peer)
}

// handshake exchanges addresses and connects. The server is ready to receive
// before it answers; the client sends nothing before its last word on TCP. A
// client that cannot connect does not say it, so that the server does not wait
// for messages that never come.
func (s *side) handshake(ctx context.Context, tcp conn) error {
	own := addressOf(s.own)
	s.printAddress("  local address:  ", s.own, s.service == verbs.UD)
	if s.Server != "" {
		if err := tcp.send(own); err != nil {
			return err
		}
	}
	remote, err := tcp.receive()
	if err != nil {
		return err
	}
	if s.peer, err = endpointOf(remote); err != nil {
		return err
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	if s.Server == "" {
		if err := tcp.send(own); err != nil {
			return err
		}
		if err := tcp.finished(); err != nil {
			return err
		}
	} else if err := tcp.finish(); err != nil {
		return err
	}
	s.printAddress("  remote address: ", s.peer, false)
	return nil
}

// close frees everything.
func (s *side) close() error {
	if s.dev == nil {
		return nil
	}
	return s.dev.Close() // destroys what was made on it
}

const page = 4096

// fill gives the buffer the contents of the C programs.
func fill(b []byte, validate bool) {
	for i := range b {
		b[i] = 0x7b
	}
	if validate {
		for i := 0; i < len(b); i += page {
			b[i] = 0
		}
	}
}

// firstBadPage is the first page that does not begin with what a validating
// client sends, -1 if there is none.
func firstBadPage(b []byte) int {
	for i := 0; i < len(b); i += page {
		if b[i] != 0 {
			return i / page
		}
	}
	return -1
}
