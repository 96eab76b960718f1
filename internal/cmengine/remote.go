package cmengine

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/internal/shm"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// remote is the service of a device that a daemon owns. The session has one client of
// it at a time: who opens the next waits until the end of the last, or of the session.
type remote struct{ s *session.Session }

// remotes are those that have a client, or somebody who waits to be one.
var remotes = struct {
	mu sync.Mutex
	of map[*session.Session]*remoteUse
}{of: map[*session.Session]*remoteUse{}}

// remoteUse is who has, or waits for, the turn of a session.
type remoteUse struct {
	turn  chan struct{} // has an element while somebody has it
	users int
}

// enter waits for the turn of a session. It is an error that the session has ended.
func (r *remote) enter() error {
	remotes.mu.Lock()
	u := remotes.of[r.s]
	if u == nil {
		u = &remoteUse{turn: make(chan struct{}, 1)}
		remotes.of[r.s] = u
	}
	u.users++
	remotes.mu.Unlock()
	select {
	case u.turn <- struct{}{}:
		return nil
	case <-r.s.Done(): // who has the turn may keep it for as long as there are ids to be destroyed
		r.drop(u)
		return sentinel(r.s.Err())
	}
}

func (r *remote) leave() {
	remotes.mu.Lock()
	u := remotes.of[r.s]
	remotes.mu.Unlock()
	<-u.turn
	r.drop(u)
}

// drop ends a use.
func (r *remote) drop(u *remoteUse) {
	remotes.mu.Lock()
	defer remotes.mu.Unlock()
	if u.users--; u.users == 0 {
		delete(remotes.of, r.s)
	}
}

// Open asks the daemon for the socket of events.
func (r *remote) Open(sink func(cmfsm.Event)) (Client, error) {
	if err := r.enter(); err != nil {
		return nil, err
	}
	c, err := r.open(sink)
	if err != nil {
		r.leave()
		return nil, err
	}
	return c, nil
}

func (r *remote) open(sink func(cmfsm.Event)) (*remoteClient, error) {
	fds, err := r.s.Call(context.Background(), proto.OpCMOpen, &proto.Empty{}, &proto.Empty{})
	if err != nil {
		return nil, sentinel(err)
	}
	defer fds.Close()
	if len(fds) != 1 {
		return nil, fmt.Errorf("%w: %d descriptors with CM_OPEN", session.ErrProtocol, len(fds))
	}
	events, err := shm.FromFD(fds.Take(0))
	if err != nil {
		return nil, err
	}
	c := &remoteClient{r: r, sink: sink, events: events}
	c.reader.Go(c.read)
	return c, nil
}

// remoteClient makes its calls of the daemon.
type remoteClient struct {
	r      *remote
	sink   func(cmfsm.Event)
	events *shm.Conn
	reader sync.WaitGroup
	once   sync.Once
	closed sync.Mutex // guards ended; held while an event is handed on
	ended  bool
}

// read hands events on until the end, of which it tells when the daemon has brought
// it about.
func (c *remoteClient) read() {
	buf := make([]byte, proto.MaxMessage)
	for {
		n, fds, err := c.events.Recv(buf)
		fds.Close()
		var m proto.CMEvent
		if err == nil {
			err = proto.Decode(buf[:n], &m)
		}
		if err != nil {
			c.tell(cmfsm.Event{Type: cmfsm.EventDeviceRemoval})
			return
		}
		c.tell(m.FSM())
	}
}

func (c *remoteClient) tell(e cmfsm.Event) {
	c.closed.Lock()
	defer c.closed.Unlock()
	if !c.ended {
		c.sink(e)
	}
}

// call makes a request that ends by itself.
func (c *remoteClient) call(op proto.Op, req, rep any) error {
	return sentinel(c.r.s.Do(op, req, rep))
}

func (c *remoteClient) Create(ps wire.PortSpace, typ ibv.QPType) (cmfsm.ID, error) {
	var rep proto.CMID
	err := c.call(proto.OpCMCreate, &proto.CMCreate{PortSpace: uint32(ps), Type: uint32(typ)}, &rep)
	return cmfsm.ID(rep.ID), err
}

func (c *remoteClient) SetOptions(id cmfsm.ID, o cmfsm.Options) error {
	req := proto.OptionsOf(id, o)
	return c.call(proto.OpCMSetOptions, &req, nil)
}

func (c *remoteClient) Bind(id cmfsm.ID, addr netip.AddrPort) (netip.AddrPort, error) {
	var rep proto.AddrPort
	if err := c.call(proto.OpCMBind, &proto.CMBind{ID: uint64(id), Addr: proto.AddrPortOf(addr)}, &rep); err != nil {
		return netip.AddrPort{}, err
	}
	return rep.Netip(), nil
}

func (c *remoteClient) Listen(id cmfsm.ID, backlog int) error {
	return c.call(proto.OpCMListen, &proto.CMListen{ID: uint64(id), Backlog: uint32(min(max(backlog, 0), 1<<30))}, nil)
}

func (c *remoteClient) Resolve(ctx context.Context, q Query) (Resolved, error) {
	zone, err := proto.ZoneName("", q.Dst, q.Src)
	if err != nil {
		return Resolved{}, fmt.Errorf("%w: %w", verbs.ErrInvalid, err)
	}
	req := proto.CMResolve{Src: proto.AddrOf(q.Src.Unmap()), Dst: proto.AddrOf(q.Dst.Unmap()), WaitNS: session.WaitNS(ctx), TOS: q.TOS}
	proto.PutText(req.Interface[:], zone)
	var rep proto.CMResolved
	fds, err := c.r.s.Call(ctx, proto.OpCMResolve, &req, &rep)
	fds.Close()
	if err != nil {
		return Resolved{}, sentinel(err)
	}
	return Resolved{Src: rep.Src.Netip(), Dst: rep.Dst.Netip(), MTU: ibv.MTU(rep.MTU), HopLimit: rep.HopLimit, VLAN: rep.VLAN}, nil
}

func (c *remoteClient) Connect(id cmfsm.ID, r *cmfsm.Route, p *cmfsm.ConnParam) error {
	if r == nil {
		return fmt.Errorf("%w: no route", cmfsm.ErrInvalid)
	}
	param, err := paramOf(p)
	if err != nil {
		return err
	}
	req := proto.CMConnect{ID: uint64(id), Param: param}
	req.SetRoute(r)
	return c.call(proto.OpCMConnect, &req, nil)
}

// paramOf is p as it travels.
func paramOf(p *cmfsm.ConnParam) (proto.CMParam, error) {
	param, ok := proto.CMParamOf(p)
	if !ok {
		return param, fmt.Errorf("%w: %d bytes, no message has room for more than %d", cmfsm.ErrPrivateData, len(p.PrivateData), proto.MaxPrivate)
	}
	return param, nil
}

func (c *remoteClient) Accept(id cmfsm.ID, p *cmfsm.ConnParam) error {
	param, err := paramOf(p)
	if err != nil {
		return err
	}
	return c.call(proto.OpCMAccept, &proto.CMAccept{ID: uint64(id), Param: param}, nil)
}

func (c *remoteClient) Reject(id cmfsm.ID, why wire.RejReason, private []byte) error {
	if len(private) > proto.MaxPrivate {
		return fmt.Errorf("%w: %d bytes, no message has room for more than %d", cmfsm.ErrPrivateData, len(private), proto.MaxPrivate)
	}
	req := proto.CMReject{ID: uint64(id), Reason: uint32(why), PrivateLen: uint32(len(private))}
	copy(req.Private[:], private)
	return c.call(proto.OpCMReject, &req, nil)
}

func (c *remoteClient) Established(id cmfsm.ID) error {
	return c.call(proto.OpCMEstablished, &proto.CMID{ID: uint64(id)}, nil)
}

func (c *remoteClient) Disconnect(id cmfsm.ID) error {
	return c.call(proto.OpCMDisconnect, &proto.CMID{ID: uint64(id)}, nil)
}

func (c *remoteClient) Destroy(id cmfsm.ID) error {
	return c.call(proto.OpCMDestroy, &proto.CMID{ID: uint64(id)}, nil)
}

// QPAttr asks with a parameter always: without one, as much as both ends can is
// what the machine goes by.
func (c *remoteClient) QPAttr(id cmfsm.ID, p *cmfsm.ConnParam) (cmfsm.QPAttr, error) {
	if p == nil {
		p = &cmfsm.ConnParam{ResponderResources: cmfsm.MaxResources, InitiatorDepth: cmfsm.MaxResources}
	}
	param, err := paramOf(p)
	if err != nil {
		return cmfsm.QPAttr{}, err
	}
	var rep proto.CMQPAttrReply
	if err := c.call(proto.OpCMQPAttr, &proto.CMAccept{ID: uint64(id), Param: param}, &rep); err != nil {
		return cmfsm.QPAttr{}, err
	}
	return cmfsm.QPAttr{QPAttr: rep.Attr.IBV(), LocalGID: rep.LocalGID, VLAN: rep.VLAN, Scope: rep.Scope}, nil
}

func (c *remoteClient) Info(id cmfsm.ID) (cmfsm.Info, error) {
	var rep proto.CMInfo
	if err := c.call(proto.OpCMInfo, &proto.CMID{ID: uint64(id)}, &rep); err != nil {
		return cmfsm.Info{}, err
	}
	return rep.FSM(), nil
}

func (c *remoteClient) QPNHeld(qpn uint32) bool {
	var rep proto.CMHeld
	return c.call(proto.OpCMQPNHeld, &proto.CMQPN{QPN: qpn}, &rep) == nil && rep.Held != 0
}

func (c *remoteClient) Counters() (v []verbs.CounterValue, err error) {
	all, err := session.List(context.Background(), c.r.s, proto.OpCMCounters, func(r *proto.CountersReply) (uint32, uint32, []proto.Counter) {
		return r.Total, r.Count, r.Entry[:]
	})
	if err != nil {
		return nil, sentinel(err)
	}
	for i := range all {
		v = append(v, verbs.CounterValue{Name: proto.Text(all[i].Name[:]), Value: all[i].Value})
	}
	return v, nil
}

// Close ends the client. That it is closed already, or the daemon is gone, is no
// error.
func (c *remoteClient) Close() error {
	var err error
	c.once.Do(func() {
		c.closed.Lock()
		c.ended = true
		c.closed.Unlock()
		if err = c.call(proto.OpCMClose, &proto.Empty{}, nil); errors.Is(err, verbs.ErrClosed) {
			err = nil
		}
		_ = c.events.Close() // which ends read
		c.reader.Wait()
		c.r.leave()
	})
	return err
}
