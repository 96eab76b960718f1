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

// RC runs one side: ibv_rc_pingpong's protocol, options and output. It returns
// when all messages went both ways, something failed, or ctx ended.
func RC(ctx context.Context, o Options) (res *Result, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &rc{Options: o}
	defer func() {
		err = errors.Join(err, r.close())
		if ctx.Err() != nil && err != nil {
			err = ctx.Err()
		}
	}()
	if o.Interface != "" {
		if err := r.open(o.Interface); err != nil {
			return nil, err
		}
	}
	tcp, err := r.join(ctx)
	if err != nil {
		return nil, err
	}
	defer tcp.Close()
	defer context.AfterFunc(ctx, func() { tcp.Close() })()
	if err := r.prepare(tcp); err != nil {
		return nil, err
	}
	if err := r.handshake(tcp); err != nil {
		return nil, err
	}
	tcp.Close()
	start := time.Now()
	if err := r.exchange(ctx); err != nil {
		return nil, err
	}
	res = &Result{
		Local: r.own, Remote: r.peer, Iters: o.Iters, Bytes: int64(o.Size) * int64(o.Iters) * 2,
		Elapsed: time.Since(start), ValidationPage: -1,
	}
	if o.Validate && o.Server == "" {
		res.ValidationPage = firstBadPage(r.mr.Bytes())
	}
	r.settle()
	return res, r.printResult(res)
}

// rc is one side of a run.
type rc struct {
	Options
	dev       *verbs.Context
	pd        *verbs.PD
	cq        *verbs.CQ
	mr        *verbs.MR
	qp        *verbs.QP
	path      connect.Path
	own, peer connect.Endpoint
}

func (r *rc) join(ctx context.Context) (conn, error) {
	if r.Server != "" {
		return dial(ctx, r.Server, r.Port)
	}
	return accept(ctx, r.Port, r.Listening)
}

func (r *rc) open(ifname string) (err error) {
	r.dev, err = r.Open(ifname)
	return err
}

// prepare makes the queue pair and posts all receives: they have to be there
// before the other end hears of it.
func (r *rc) prepare(tcp conn) error {
	local := netip.Addr{}
	if a, ok := tcp.LocalAddr().(*net.TCPAddr); ok {
		local = a.AddrPort().Addr().Unmap().WithZone("")
	}
	if r.dev == nil {
		ifname, err := connect.InterfaceOf(local)
		if err != nil {
			return err
		}
		if err := r.open(ifname); err != nil {
			return err
		}
	}
	gid, err := connect.GID(r.dev, r.GIDIndex, local)
	if err != nil {
		return err
	}
	if r.pd, err = r.dev.AllocPD(); err != nil {
		return err
	}
	buf, err := r.dev.AllocBuffer(r.Size)
	if err != nil {
		return err
	}
	fill(buf, r.Validate && r.Server != "")
	if r.mr, err = r.pd.RegisterMemory(buf, verbs.AccessLocalWrite); err != nil {
		return err
	}
	if r.cq, err = r.dev.CreateCQ(r.RxDepth + 1); err != nil {
		return err
	}
	r.qp, err = r.pd.CreateQP(&verbs.QPInitAttr{
		Type: verbs.RC, SendCQ: r.cq, RecvCQ: r.cq,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: r.RxDepth},
	})
	if err != nil {
		return err
	}
	r.path = connect.Path{MTU: r.mtu(), SGIDIndex: gid.Index, SL: uint8(r.SL), RDAtomic: 1}
	if err := connect.ToInit(r.qp, r.path); err != nil {
		return err
	}
	r.own = connect.Local(r.qp, gid, nil)
	return r.postReceives(r.RxDepth)
}

// handshake exchanges addresses and connects. The server is ready to receive
// before it answers; the client sends nothing before its last word on TCP.
func (r *rc) handshake(tcp conn) error {
	own := address{QPN: r.own.QPN, PSN: r.own.PSN, GID: verbs.GID(r.own.GID.As16())}
	r.printAddress("  local address:  ", r.own)
	if r.Server != "" {
		if err := tcp.send(own); err != nil {
			return err
		}
	}
	remote, err := tcp.receive()
	if err != nil {
		return err
	}
	r.peer = connect.Endpoint{QPN: remote.QPN, PSN: remote.PSN, GID: netip.AddrFrom16(remote.GID).Unmap()}
	if err := r.peer.Check(); err != nil {
		return fmt.Errorf("%w: start it with the index of a RoCE v2 GID (-g)", err)
	}
	if r.Server == "" {
		if err := connect.Connect(r.qp, r.path, r.own, r.peer); err != nil {
			return err
		}
		if err := tcp.send(own); err != nil {
			return err
		}
		if err := tcp.finished(); err != nil {
			return err
		}
	} else {
		if err := tcp.finish(); err != nil {
			return err
		}
		if err := connect.Connect(r.qp, r.path, r.own, r.peer); err != nil {
			return err
		}
	}
	r.printAddress("  remote address: ", r.peer)
	return nil
}

// close frees everything.
func (r *rc) close() error {
	if r.dev == nil {
		return nil
	}
	return r.dev.Close() // destroys what was made on it
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
