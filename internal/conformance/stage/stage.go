package stage

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Stage is one queue pair, its program, and a peer whose every packet the test
// says.
type Stage struct {
	testing.TB
	QP  *transport.QP
	Env *transport.Env
	SRQ *transport.SRQ // of Shared, else nil

	cfg config
	now mono.Time

	local, remote, bufs *area

	sq, rq   *queue.Producer
	scq, rcq *queue.Consumer
	posted   []posted // by the program, in the order of their PSNs
	sends    uint64   // ids given to send work requests
	recvs    uint64   // ids given to receives

	in, out wire.Path
	ends    map[int]bool // PSNs at which requests that were got end
	reads   []asked      // READs that were got
	frames  map[uint64][]byte
	ref     uint64
	drops   []wire.DropReason
	tx      *transport.Batch
}

// Numbers of the queue pair on stage and of its peer. SQPSN and RQPSN, from which
// tests count PSNs, are so near the wrap that most tests cross it.
const (
	QPN     = 0x11
	PeerQPN = 0x22
	SQPSN   = 0xFFFFFE
	RQPSN   = 0xFFFFFF

	MTU   = 256 // path MTU, and the port's for datagrams
	Short = 100 // bytes of a LAST or ONLY packet of which a test does not say more

	PeerVA  = 0x7000_0000 // what work requests name at the peer
	PeerKey = 0x5001
	Imm     = 0xA1B2C3D4 // immediate data
	InvKey  = 0x0BEEF002 // key that is to be invalidated
	AH      = 7          // the only address handle that has a path
	QKey    = 0x0123_4567

	context = 77
	domain  = memory.PD(3)
	begin   = mono.Time(1_000_000_000) // when a test begins
)

// Timeout is the local ACK timeout of a stage: 4.096 us << 14.
const Timeout = 4096 * time.Nanosecond << 14

// RC is a reliable connection in RTS; rule is what the test proves first.
func RC(t testing.TB, rule string, opts ...Option) *Stage {
	t.Helper()
	return On(t, ibv.QPTypeRC, rule, opts...)
}

// UC is an unreliable connection in RTS.
func UC(t testing.TB, rule string, opts ...Option) *Stage {
	t.Helper()
	return On(t, ibv.QPTypeUC, rule, opts...)
}

// UD is a queue pair for datagrams in RTS.
func UD(t testing.TB, rule string, opts ...Option) *Stage {
	t.Helper()
	return On(t, ibv.QPTypeUD, rule, opts...)
}

// On is a stage with a queue pair of any type.
func On(t testing.TB, typ ibv.QPType, rule string, opts ...Option) *Stage {
	t.Helper()
	conformance.Rule(t, rule)
	s := &Stage{TB: t, cfg: defaults(typ), now: begin, ends: map[int]bool{}, frames: map[uint64][]byte{}}
	for _, o := range opts {
		o(&s.cfg)
	}
	s.build()
	for state := ibv.QPStateInit; state <= s.cfg.state && state <= ibv.QPStateRTS; state++ {
		s.must(s.Enter(state))
	}
	t.Cleanup(s.curtain)
	return s
}

// Rule adds rules that the test proves.
func (s *Stage) Rule(ids ...string) {
	s.Helper()
	conformance.Rule(s.TB, ids...)
}

func (s *Stage) build() {
	s.Helper()
	seed := uint32(0x1234)
	table := memory.NewTable(16, func() uint32 { seed = seed*1664525 + 1013904223; return seed })
	s.Env = transport.NewEnv(table)
	s.Env.Window, s.Env.KeepBudget = s.cfg.window, s.cfg.keep
	s.local = s.register(0x10_0000, 0x11, ibv.AccessLocalWrite)
	s.remote = s.register(0x20_0000, 0x22, s.cfg.region)
	s.bufs = s.register(0x30_0000, 0x33, ibv.AccessLocalWrite)

	sq := s.ring(s.cfg.depth, queue.SendElemSize(4, 64))
	rq := s.ring(64, queue.RecvElemSize(4))
	scq, rcq := s.ring(s.cfg.cqe, queue.CQESize), s.ring(s.cfg.cqe, queue.CQESize)
	sendCQ, recvCQ := transport.NewCQ(scq), transport.NewCQ(rcq)
	if s.cfg.oneCQ {
		recvCQ = sendCQ
	}
	s.sq, s.rq = queue.NewProducer(sq), queue.NewProducer(rq)
	s.scq, s.rcq = queue.NewConsumer(scq), queue.NewConsumer(rcq)
	c := transport.Config{
		QPN: QPN, Type: s.cfg.typ, PD: domain, Context: context, SigAll: s.cfg.sigAll,
		Cap:    ibv.QPCap{MaxSendWR: s.cfg.depth, MaxRecvWR: 64, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 64},
		SendCQ: sendCQ, RecvCQ: recvCQ, SQ: sq, RQ: rq,
	}
	if s.cfg.shared {
		s.SRQ = transport.NewSRQ(rq, domain)
		c.SRQ, c.RQ = s.SRQ, nil
	}
	s.QP = transport.NewQP(s.Env, c)
	s.QP.SetPortMTU(MTU)
	s.tx = transport.NewBatch(s.cfg.batch)
	s.must(s.out.Set(&wire.PathFields{SrcGID: self, DstGID: peer, UDPSrcPort: 0xC123}))
	s.must(s.in.Set(&wire.PathFields{SrcGID: peer, DstGID: self, UDPSrcPort: 0xC321}))
}

func (s *Stage) ring(n, elem int) *queue.Ring {
	s.Helper()
	r, err := queue.New(n, elem)
	s.must(err)
	return r
}

func (s *Stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// self and peer are the addresses of the connection.
var (
	self = ibv.GID{10: 0xFF, 11: 0xFF, 12: 10, 15: 1}
	peer = ibv.GID{10: 0xFF, 11: 0xFF, 12: 10, 15: 2}
)

// Enter makes the transition to state with the attributes that it needs.
func (s *Stage) Enter(state ibv.QPState) error {
	a := s.cfg.attr
	a.State = state
	return s.Modify(&a, ibv.QPAttrState|s.needs(state))
}

// Modify sets attributes; the connection's addresses are those of the stage.
func (s *Stage) Modify(a *ibv.QPAttr, mask ibv.AttrMask) error {
	return s.QP.Modify(s.now, a, mask, self, peer)
}

// needs are the attributes that a queue pair must be given on its way to state.
func (s *Stage) needs(state ibv.QPState) ibv.AttrMask {
	const (
		conn = ibv.QPAttrAV | ibv.QPAttrPathMTU | ibv.QPAttrDestQPN | ibv.QPAttrRQPSN
		rts  = ibv.QPAttrTimeout | ibv.QPAttrRetryCnt | ibv.QPAttrRNRRetry | ibv.QPAttrMaxQPRDAtomic
	)
	typ, from := s.cfg.typ, s.QP.State()
	datagram := typ == ibv.QPTypeUD || typ == ibv.QPTypeGSI
	switch {
	case state == ibv.QPStateInit && typ == ibv.QPTypeGSI:
		return ibv.QPAttrPKeyIndex | ibv.QPAttrQKey
	case state == ibv.QPStateInit && datagram:
		return ibv.QPAttrPKeyIndex | ibv.QPAttrPort | ibv.QPAttrQKey
	case state == ibv.QPStateInit:
		return ibv.QPAttrPKeyIndex | ibv.QPAttrPort | ibv.QPAttrAccessFlags
	case state == ibv.QPStateRTR && typ == ibv.QPTypeRC:
		return conn | ibv.QPAttrMaxDestRDAtomic | ibv.QPAttrMinRNRTimer
	case state == ibv.QPStateRTR && typ == ibv.QPTypeUC:
		return conn
	case state == ibv.QPStateRTS && from == ibv.QPStateRTR && typ == ibv.QPTypeRC:
		return ibv.QPAttrSQPSN | rts
	case state == ibv.QPStateRTS && from == ibv.QPStateRTR:
		return ibv.QPAttrSQPSN
	}
	return 0
}

// curtain holds that nothing happened that the test did not name.
func (s *Stage) curtain() {
	s.Helper()
	if s.Failed() {
		return
	}
	s.Sends()
	s.Completes()
	s.Receives()
	s.Events()
	s.Drops()
}

// word is a number as it lies in the memory of this host.
func word(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }
