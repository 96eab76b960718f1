package verbstest

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Options of a pair. The zero value is a usable pair.
type Options struct {
	MTU         verbs.MTU    // 0: the smaller of both ports' active MTU; not for UD, which has that
	GIDIndex    [2]int       // of A and B; used when UseGIDIndex
	UseGIDIndex bool         // otherwise each side's default GID
	BufferSize  int          // bytes of each side's region; 0: 1 MiB
	Depth       int          // work requests of each queue; 0: 64
	SGE         int          // entries of each work request; 0: 4
	Inline      int          // bytes of inline data
	CQ          [2]*verbs.CQ // completion queues to share; nil: one of its own each
	// SRQ are shared receive queues that the ends take receives from; Recv posts
	// to them, and the ends live in their protection domains. nil: one of its own.
	SRQ [2]*verbs.SRQ
	// XRCD are the XRC domains of the ends' targets and of their shared receive queues,
	// which are of type SRQXRC then; nil: one of its own.
	XRCD        [2]*verbs.XRCD
	PSN         uint32       // first PSN of both directions; 0: random
	Timeout     uint8        // local ACK timeout exponent; 0: 14 (67 ms)
	Retry       uint8        // retry count; 0: 7
	RNRRetry    uint8        // 0: 7, for ever
	MinRNRTimer uint8        // 0: 12 (0.64 ms)
	RDAtomic    uint8        // READs and atomics outstanding; 0: 16
	Access      verbs.Access // of region and queue pair; 0: everything
	SigAll      bool
	QKey        uint32 // UD: of both ends; 0: 0x11111111
}

// All are the access rights that let a peer do everything.
const All = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// End is one side of a pair.
type End struct {
	Dev *verbs.Context
	PD  *verbs.PD
	CQ  *verbs.CQ
	QP  *verbs.QP
	SRQ *verbs.SRQ // nil: the queue pair has a receive queue of its own
	TGT *verbs.QP  // XRC: where the other end's requests come in; QP is the initiator
	MR  *verbs.MR
	Buf []byte // the region's memory
	GID verbs.GIDEntry
	PSN uint32

	AH   *verbs.AH // UD: leads to the other end
	QKey uint32    // UD: what datagrams to this end must have

	ownCQ, ownPD bool
	xrc          xrcEnd
}

// Pair are two ends, connected or, with UD, acquainted.
type Pair struct {
	A, B *End
	MTU  verbs.MTU
}

func (o Options) withDefaults() Options {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def8 := func(v *uint8, d uint8) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.BufferSize, 1<<20)
	def(&o.Depth, 64)
	def(&o.SGE, 4)
	def8(&o.Timeout, 14)
	def8(&o.Retry, 7)
	def8(&o.RNRRetry, 7)
	def8(&o.MinRNRTimer, 12)
	def8(&o.RDAtomic, 16)
	if o.QKey == 0 {
		o.QKey = 0x11111111
	}
	if o.Access == 0 {
		o.Access = All
	}
	return o
}

// RCPair connects two queue pairs of a and b, which may be the same device, and
// brings both to RTS. Everything ends with the test.
func RCPair(t testing.TB, a, b *verbs.Context, o Options) *Pair {
	t.Helper()
	return pairForTest(t, verbs.RC, a, b, o)
}

// UCPair is RCPair of unreliable connections.
func UCPair(t testing.TB, a, b *verbs.Context, o Options) *Pair {
	t.Helper()
	return pairForTest(t, verbs.UC, a, b, o)
}

// UDPair makes two queue pairs of datagrams in RTS and an address handle of each
// end at the other.
func UDPair(t testing.TB, a, b *verbs.Context, o Options) *Pair {
	t.Helper()
	return pairForTest(t, verbs.UD, a, b, o)
}

// XRCPair connects the initiator of each end to the target of the other.
func XRCPair(t testing.TB, a, b *verbs.Context, o Options) *Pair {
	t.Helper()
	return pairForTest(t, verbs.XRCSend, a, b, o)
}

// GSIPair is UDPair of the two devices' general services interfaces.
func GSIPair(t testing.TB, a, b *verbs.Context, o Options) *Pair {
	t.Helper()
	return pairForTest(t, verbs.GSI, a, b, o)
}

func pairForTest(t testing.TB, typ verbs.QPType, a, b *verbs.Context, o Options) *Pair {
	t.Helper()
	p, err := NewPair(typ, a, b, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("closing the pair: %v", err)
		}
	})
	return p
}

// NewRCPair is RCPair without a test.
func NewRCPair(a, b *verbs.Context, o Options) (*Pair, error) { return NewPair(verbs.RC, a, b, o) }

// NewPair is RCPair, UCPair, UDPair or, with the type XRCSend, XRCPair without a test.
func NewPair(typ verbs.QPType, a, b *verbs.Context, o Options) (*Pair, error) {
	o = o.withDefaults()
	p := &Pair{MTU: o.MTU}
	if p.MTU == 0 || typ.Datagram() {
		m, err := commonMTU(a, b)
		if err != nil {
			return nil, err
		}
		p.MTU = m
	}
	var err error
	if p.A, err = newEnd(typ, a, o, 0); err == nil {
		p.B, err = newEnd(typ, b, o, 1)
	}
	if err == nil {
		err = join(p.A, p.B, p.MTU, o)
	}
	if err == nil {
		err = join(p.B, p.A, p.MTU, o)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func commonMTU(a, b *verbs.Context) (verbs.MTU, error) {
	pa, err := a.QueryPort()
	if err != nil {
		return 0, err
	}
	pb, err := b.QueryPort()
	if err != nil {
		return 0, err
	}
	return min(pa.ActiveMTU, pb.ActiveMTU), nil
}

func newEnd(typ verbs.QPType, dev *verbs.Context, o Options, side int) (*End, error) {
	e := &End{Dev: dev, PSN: o.PSN, QKey: o.QKey, SRQ: o.SRQ[side]}
	if typ == verbs.GSI {
		e.QKey = verbs.GSIQKey
	}
	if e.PSN == 0 {
		e.PSN = rand.Uint32N(1 << 24)
	}
	var err error
	if o.UseGIDIndex {
		e.GID, err = dev.QueryGID(o.GIDIndex[side])
	} else {
		e.GID, err = dev.DefaultGID()
	}
	if err != nil {
		return e, err
	}
	if e.SRQ != nil {
		e.PD = e.SRQ.PD() // whose regions its entries name
	} else if e.PD, err = dev.AllocPD(); err != nil {
		return e, err
	} else {
		e.ownPD = true
	}
	if e.CQ = o.CQ[side]; e.CQ == nil {
		e.ownCQ = true
		if e.CQ, err = dev.CreateCQ(4 * o.Depth); err != nil {
			return e, err
		}
	}
	if e.Buf, err = dev.AllocBuffer(o.BufferSize); err != nil {
		return e, err
	}
	if e.MR, err = e.PD.RegisterMemory(e.Buf, o.Access); err != nil {
		return e, err
	}
	init := &verbs.QPInitAttr{
		Type: typ, SendCQ: e.CQ, RecvCQ: e.CQ, SRQ: e.SRQ, SigAll: o.SigAll,
		Cap: verbs.QPCap{MaxSendWR: o.Depth, MaxRecvWR: o.Depth, MaxSendSGE: o.SGE, MaxRecvSGE: o.SGE, MaxInline: o.Inline},
	}
	if typ == verbs.XRCSend {
		if err := e.makeTarget(o, side); err != nil {
			return e, err
		}
		init.RecvCQ, init.SRQ = nil, nil
	}
	e.QP, err = e.PD.CreateQP(init)
	return e, err
}

// join brings e's queue pair to RTS towards peer.
func join(e, peer *End, mtu verbs.MTU, o Options) (err error) {
	path := connect.Path{
		MTU: mtu, SGIDIndex: e.GID.Index, Access: o.Access, RDAtomic: o.RDAtomic,
		Timeout: o.Timeout, RetryCnt: o.Retry, RNRRetry: o.RNRRetry, MinRNRTimer: o.MinRNRTimer,
		QKey: o.QKey,
	}
	if peer.TGT != nil {
		return e.joinTarget(peer, path)
	}
	if err := connect.ToInit(e.QP, path); err != nil {
		return err
	}
	if e.QP.Type().Datagram() {
		av := path.Address(peer.endpoint())
		if e.AH, err = e.PD.CreateAH(&av); err != nil {
			return err
		}
	}
	return connect.Connect(context.Background(), e.QP, path, e.endpoint(), peer.endpoint())
}

func (e *End) endpoint() connect.Endpoint {
	ep := connect.Local(e.QP, e.GID, e.MR)
	ep.PSN = e.PSN
	return ep
}

// Close frees both ends.
func (p *Pair) Close() error {
	var errs []error
	for _, e := range []*End{p.A, p.B} {
		if e != nil {
			errs = append(errs, e.close())
		}
	}
	return errors.Join(errs...)
}

func (e *End) close() error {
	var errs []error
	if e.QP != nil {
		errs = append(errs, e.QP.Destroy())
	}
	errs = append(errs, e.xrc.close(e))
	if e.AH != nil {
		errs = append(errs, e.AH.Destroy())
	}
	if e.MR != nil {
		errs = append(errs, e.MR.Deregister())
	}
	if e.Buf != nil {
		errs = append(errs, e.Dev.FreeBuffer(e.Buf))
	}
	if e.CQ != nil && e.ownCQ {
		errs = append(errs, e.CQ.Destroy())
	}
	if e.PD != nil && e.ownPD {
		errs = append(errs, e.PD.Dealloc())
	}
	return errors.Join(errs...)
}
