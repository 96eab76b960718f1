package perf

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

// DefaultPort is the TCP port of perftest.
const DefaultPort = 18515

// protocol names what is spoken on the TCP connection.
const protocol = "roce-xdp perf 1"

// Config is what one side of a test decides for itself.
type Config struct {
	Open      func(ifname string) (*verbs.Context, error)
	Interface string // empty: the one that the TCP connection uses
	GIDIndex  int    // negative: the address that the TCP connection uses, else the device's default
	Server    string // host of the server; empty: be the server
	Port      int    // TCP; 0: DefaultPort
	Params    Params // complete; of a server only Test counts
	Output    Output
	Listening func(port int) // called when a server waits for its client; may be nil
}

// Report is everything about a test that ended.
type Report struct {
	Test      string             `json:"test"`
	Title     string             `json:"-"`
	Server    bool               `json:"server"`
	Device    string             `json:"device"`
	XDPMode   string             `json:"xdp_mode"`
	ZeroCopy  bool               `json:"zero_copy"`
	LinkMTU   int                `json:"link_mtu"`
	Params    Params             `json:"params"` // MTU is the path MTU that was used
	Local     []connect.Endpoint `json:"local"`
	Remote    []connect.Endpoint `json:"remote"`
	Bandwidth []Bandwidth        `json:"bandwidth,omitempty"`
	Latency   []Latency          `json:"latency,omitempty"`
}

// hello is the client's first message, welcome the server's answer.
type hello struct {
	Protocol  string `json:"protocol"`
	Params    Params `json:"params"`
	ActiveMTU int    `json:"active_mtu"` // bytes
}

type welcome struct {
	MTU int `json:"mtu"` // path MTU for both, bytes
}

// result is what an end measured at one size.
type result struct {
	Bandwidth Bandwidth `json:"bandwidth"`
	Latency   Latency   `json:"latency"`
}

// session is one end of a running test.
type session struct {
	Config
	ch     *connect.Channel
	dev    *verbs.Context
	gid    verbs.GIDEntry
	port   verbs.PortAttr
	p      Params
	end    *End
	report Report
}

// Run runs one side of a test. It returns when the test ended, failed or was
// cancelled; everything it opened is closed then.
func Run(ctx context.Context, c Config) (_ *Report, err error) {
	s := &session{Config: c}
	if s.Port == 0 {
		s.Port = DefaultPort
	}
	if s.Interface != "" {
		if err := s.open(); err != nil {
			return nil, err
		}
	}
	defer func() { err = errors.Join(err, s.close(ctx, err)) }()
	if s.ch, err = s.join(ctx); err != nil {
		return nil, err
	}
	if err := s.agree(); err != nil {
		return nil, err
	}
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	s.Output.start(&s.report)
	for _, size := range s.p.Sizes {
		if err := s.measure(ctx, size); err != nil {
			return nil, err
		}
	}
	if err := s.ch.Barrier("done"); err != nil {
		return nil, err
	}
	return &s.report, s.Output.finish(&s.report)
}

// close tells the peer of a failure and closes everything.
func (s *session) close(ctx context.Context, failure error) error {
	var errs error
	if s.ch != nil {
		if failure != nil && !errors.Is(failure, connect.ErrPeer) {
			s.ch.Fail(failure)
		}
	}
	if s.end != nil {
		errs = errors.Join(errs, s.end.Close())
	}
	if s.dev != nil {
		errs = errors.Join(errs, s.dev.Close())
	}
	if s.ch != nil {
		s.ch.Close()
	}
	if failure != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return errs
}

// join connects to the server or waits for the client.
func (s *session) join(ctx context.Context) (*connect.Channel, error) {
	if s.Server != "" {
		return connect.Dial(ctx, net.JoinHostPort(s.Server, fmt.Sprint(s.Port)))
	}
	l, err := connect.Listen(ctx, s.Port)
	if err != nil {
		return nil, err
	}
	if s.Listening != nil {
		s.Listening(l.Port())
	}
	return l.Accept(ctx)
}

// open opens the interface, which is found through the TCP connection when none
// was named.
func (s *session) open() (err error) {
	if s.Interface == "" {
		if s.Interface, err = connect.InterfaceOf(s.ch.LocalAddr()); err != nil {
			return err
		}
	}
	if s.dev, err = s.Open(s.Interface); err != nil {
		return err
	}
	s.port, err = s.dev.QueryPort()
	return err
}

// agree settles what is measured: the client asks, the server decides the MTU.
func (s *session) agree() error {
	if s.dev == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	var local netip.Addr
	if s.GIDIndex < 0 {
		local = s.ch.LocalAddr()
	}
	var err error
	if s.gid, err = connect.GID(s.dev, s.GIDIndex, local); err != nil {
		return err
	}
	if s.Server != "" {
		s.p = s.Params
		var w welcome
		if err := s.ch.Exchange(hello{protocol, s.p, s.port.ActiveMTU.Bytes()}, &w); err != nil {
			return err
		}
		s.p.MTU = w.MTU
	} else {
		var h hello
		if err := s.ch.Receive(&h); err != nil {
			return err
		}
		if s.p, err = s.answer(h); err != nil {
			return err
		}
		if err := s.ch.Send(welcome{s.p.MTU}); err != nil {
			return err
		}
	}
	if connect.PathMTU(s.p.MTU) == 0 || connect.PathMTU(s.p.MTU) > s.port.ActiveMTU {
		return fmt.Errorf("%w: path MTU %d: the link MTU of %s is %d, which carries %d", ErrParams, s.p.MTU, s.Interface, s.port.LinkMTU, s.port.ActiveMTU.Bytes())
	}
	return nil
}

// answer checks a client's wishes and chooses the path MTU.
func (s *session) answer(h hello) (Params, error) {
	if h.Protocol != protocol {
		return Params{}, fmt.Errorf("%w (%q, not %q)", connect.ErrProtocol, h.Protocol, protocol)
	}
	p, err := h.Params.Complete()
	if err != nil {
		return p, err
	}
	if p.Test != s.Params.Test {
		return p, fmt.Errorf("%w: the client runs %s, the server %s", ErrParams, p.Test, s.Params.Test)
	}
	if p.MTU == 0 {
		p.MTU = min(h.ActiveMTU, s.port.ActiveMTU.Bytes())
	}
	return p, nil
}

// connect makes this side's end and connects it to the peer's.
func (s *session) connect(ctx context.Context) (err error) {
	path := connect.Path{MTU: connect.PathMTU(s.p.MTU)}
	if s.end, err = NewEnd(s.dev, s.gid, path, s.p); err != nil {
		return err
	}
	peer, err := s.exchange(ctx)
	if err != nil {
		return err
	}
	s.p.MTU = s.end.path.MTU.Bytes() // a route may carry less than the links
	attr, err := s.dev.QueryDevice()
	if err != nil {
		return err
	}
	s.report = Report{
		Test: s.p.Test.String(), Title: s.p.Test.Title(), Server: s.Server == "", Device: s.Interface,
		XDPMode: attr.XDPMode, ZeroCopy: attr.ZeroCopy, LinkMTU: s.port.LinkMTU,
		Params: s.p, Local: s.end.Endpoints(), Remote: peer,
	}
	return s.ch.Barrier("connected")
}

// exchange connects the queue pairs to the peer's, which it returns.
func (s *session) exchange(ctx context.Context) (peer []connect.Endpoint, err error) {
	if s.p.RDMACM {
		return s.meet(ctx)
	}
	if err := s.ch.Exchange(s.end.Endpoints(), &peer); err != nil {
		return nil, err
	}
	return peer, s.end.Connect(ctx, peer)
}

// measure runs the test at one size and adds the row to the report.
func (s *session) measure(ctx context.Context, size int) error {
	client := s.Server != ""
	s.end.Prepare(size)
	if err := s.ch.Barrier(fmt.Sprintf("%d bytes", size)); err != nil {
		return err
	}
	var own, peer result
	var err error
	switch {
	case s.p.Test.Latency:
		own.Latency, err = s.latency(ctx, size)
	case client || s.p.Bidirectional:
		own.Bandwidth, err = s.end.Bandwidth(ctx)
	}
	if err != nil {
		return err
	}
	if err := s.settle(ctx, own, &peer); err != nil {
		return err
	}
	if !client {
		own, peer = peer, own
	}
	if s.p.Test.Latency {
		s.report.Latency = append(s.report.Latency, own.Latency)
		s.Output.latency(own.Latency)
		return nil
	}
	if s.p.Bidirectional {
		own.Bandwidth.add(peer.Bandwidth)
	}
	s.report.Bandwidth = append(s.report.Bandwidth, own.Bandwidth)
	s.Output.bandwidth(own.Bandwidth)
	return nil
}

// chunk is how many messages a latency test exchanges between two looks at the
// clock, when it runs for a time.
const chunk = 1000

// latency measures on this side: all at once, or in chunks until the client says
// that the time is over.
func (s *session) latency(ctx context.Context, size int) (Latency, error) {
	client := s.Server != ""
	active := client || s.p.Test.pingPong()
	n, deadline := s.p.Iters, time.Now().Add(s.p.Duration)
	if s.p.Duration > 0 {
		n = chunk
	}
	samples := make([]int64, 0, s.p.Iters)
	for more := true; more; {
		var err error
		if active {
			if samples, err = s.end.Latency(ctx, n, client, samples); err != nil {
				return Latency{}, err
			}
		}
		more = s.p.Duration > 0 && client && time.Now().Before(deadline) && len(samples) < maxSamples
		var theirs bool
		if err := s.settle(ctx, more, &theirs); err != nil {
			return Latency{}, err
		}
		more = more || theirs
	}
	return Summarize(size, samples), nil
}

// maxSamples ends latency tests that run for a time early rather than in want of
// memory.
const maxSamples = 1 << 24

// settle exchanges messages with the peer and answers its packets meanwhile: it
// may not have finished yet.
func (s *session) settle(ctx context.Context, own, peer any) error {
	serving, finished := context.WithCancel(ctx)
	exchanged := make(chan error, 1)
	go func() {
		exchanged <- s.ch.Exchange(own, peer)
		finished()
	}()
	if err := s.end.Serve(serving); err != nil {
		s.ch.Fail(err)
		s.ch.Close()
		<-exchanged
		return err
	}
	return <-exchanged
}
