package serve

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

const portSpaceTCP = 0x0106

// cmClient is a client with the connection manager open; its socket of events comes
// along.
func cmClient(t *testing.T, r *rig) (*raw, *shm.Conn) {
	t.Helper()
	w := r.open(t)
	w.must(proto.OpCMOpen, &proto.Empty{}, nil)
	events, err := shm.FromFD(w.fds.Take(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = events.Close() })
	return w, events
}

// listener is an id that listens at a port of the device's address.
func (w *raw) listener(port uint16) proto.CMID {
	w.t.Helper()
	var id proto.CMID
	w.must(proto.OpCMCreate, &proto.CMCreate{PortSpace: portSpaceTCP, Type: uint32(ibv.QPTypeRC)}, &id)
	w.must(proto.OpCMBind, &proto.CMBind{ID: id.ID, Addr: at(port)}, &proto.AddrPort{})
	w.must(proto.OpCMListen, &proto.CMListen{ID: id.ID, Backlog: 8}, nil)
	return id
}

func at(port uint16) proto.AddrPort {
	a := proto.AddrPort{Port: port}
	own := proto.AddrOf(ownAddr)
	a.IP, a.Family = own.IP, own.Family
	return a
}

// Ports belong to clients, and are free when these are gone.
func TestPorts(t *testing.T) {
	r := newRig(t, Config{})
	first, _ := cmClient(t, r)
	id := first.listener(7471)
	second, _ := cmClient(t, r)
	var other proto.CMID
	second.must(proto.OpCMCreate, &proto.CMCreate{PortSpace: portSpaceTCP, Type: uint32(ibv.QPTypeRC)}, &other)
	second.refused(proto.StatusCMAddrInUse, proto.OpCMBind, &proto.CMBind{ID: other.ID, Addr: at(7471)})
	var bound proto.AddrPort
	second.must(proto.OpCMBind, &proto.CMBind{ID: other.ID, Addr: at(0)}, &bound)
	if bound.Port == 0 || bound.Netip().Addr() != ownAddr {
		t.Errorf("an ephemeral port: %v", bound.Netip())
	}
	for _, op := range []proto.Op{proto.OpCMInfo, proto.OpCMDestroy, proto.OpCMDisconnect, proto.OpCMEstablished} {
		second.refused(proto.StatusCMUnknownID, op, &id) // another's
	}
	first.close()
	waitFor(t, "the end of the listener", func() bool {
		w := *second
		w.must(proto.OpCMCreate, &proto.CMCreate{PortSpace: portSpaceTCP, Type: uint32(ibv.QPTypeRC)}, &other)
		err := w.call(proto.OpCMBind, &proto.CMBind{ID: other.ID, Addr: at(7471)}, &bound)
		second.seq = w.seq
		return err == nil
	})
}

func TestCMConversation(t *testing.T) {
	r := newRig(t, Config{Policy: func(Cred) (Limits, error) { return Limits{CMIDs: 2}, nil }})
	w, events := cmClient(t, r)
	w.refused(proto.StatusProtocol, proto.OpCMOpen, &proto.Empty{})
	create := &proto.CMCreate{PortSpace: portSpaceTCP, Type: uint32(ibv.QPTypeRC)}
	id := w.listener(7471)
	w.must(proto.OpCMCreate, create, &proto.CMID{})
	w.refused(proto.StatusCMTooManyIDs, proto.OpCMCreate, create)
	w.refused(proto.StatusInvalid, proto.OpCMCreate, &proto.CMCreate{PortSpace: 1 << 16, Type: 2})
	w.refused(proto.StatusInvalid, proto.OpCMCreate, &proto.CMCreate{PortSpace: portSpaceTCP, Type: 256})
	w.refused(proto.StatusCMState, proto.OpCMListen, &proto.CMListen{ID: id.ID})
	w.refused(proto.StatusInvalid, proto.OpCMReject, &proto.CMReject{ID: id.ID, PrivateLen: proto.MaxPrivate + 1})
	w.refused(proto.StatusInvalid, proto.OpCMResolve, &proto.CMResolve{})
	list := r.srv.Snapshot("")
	if len(list) != 1 || len(list[0].IDs) != 2 || list[0].IDs[0].Info.State != cmfsm.StateListen && list[0].IDs[1].Info.State != cmfsm.StateListen {
		t.Errorf("clients %+v", list)
	}
	w.must(proto.OpCMDestroy, &id, nil)
	w.must(proto.OpCMCreate, create, &proto.CMID{})
	w.must(proto.OpCMClose, &proto.Empty{}, nil)
	if _, _, err := events.Recv(make([]byte, 1024)); err == nil {
		t.Error("events go on after CM_CLOSE")
	}
	w.refused(proto.StatusProtocol, proto.OpCMClose, &proto.Empty{})
	w.refused(proto.StatusProtocol, proto.OpCMCreate, create)
	w.must(proto.OpCMOpen, &proto.Empty{}, nil)
	w.must(proto.OpCMCreate, create, &proto.CMID{})
}

// A client cannot have a peer talk to a queue pair of another client.
func TestQueuePairsOfOthers(t *testing.T) {
	r := newRig(t, Config{})
	w, _ := cmClient(t, r)
	mine, theirs := makeKit(w), makeKit(r.open(t))
	var id proto.CMID
	w.must(proto.OpCMCreate, &proto.CMCreate{PortSpace: portSpaceTCP, Type: uint32(ibv.QPTypeRC)}, &id)
	to := at(7471)
	peer := proto.AddrOf(peerAddr)
	to.IP, to.Family = peer.IP, peer.Family
	connect := func(qpn uint32) *proto.CMConnect {
		return &proto.CMConnect{ID: id.ID, Local: at(0), Remote: to, MTU: 3, Param: proto.CMParam{QPN: qpn}}
	}
	w.refused(proto.StatusInvalid, proto.OpCMConnect, connect(theirs.qp.QPN))
	w.refused(proto.StatusInvalid, proto.OpCMConnect, connect(1))
	w.refused(proto.StatusCMState, proto.OpCMAccept, &proto.CMAccept{ID: id.ID, Param: proto.CMParam{QPN: theirs.qp.QPN}})
	w.refused(proto.StatusCMUnknownID, proto.OpCMAccept, &proto.CMAccept{ID: 1 << 40, Param: proto.CMParam{QPN: theirs.qp.QPN}})
	var held proto.CMHeld
	w.must(proto.OpCMQPNHeld, &proto.CMQPN{QPN: theirs.qp.QPN}, &held)
	if held.Held != 0 {
		t.Error("it is told about queue pairs of others")
	}
	w.must(proto.OpCMConnect, connect(mine.qp.QPN), nil)
	w.must(proto.OpDestroyQP, &proto.Handle{Handle: mine.qp.Handle}, nil)
	var next proto.CMID
	w.must(proto.OpCMCreate, &proto.CMCreate{PortSpace: portSpaceTCP, Type: uint32(ibv.QPTypeRC)}, &next)
	id = next
	w.refused(proto.StatusInvalid, proto.OpCMConnect, connect(mine.qp.QPN)) // it is one no more
}

// A client that does not read the events of its connections is thrown out.
func TestUnreadEvents(t *testing.T) {
	r := newRig(t, Config{})
	w, _ := cmClient(t, r)
	s := r.srv.of(nil)[0]
	c := s.connections()
	for range 4 * maxCMEvents { // what the socket holds, and more than may wait
		c.sink(cmfsm.Event{Type: cmfsm.EventTimewaitExit, ID: 1})
	}
	w.ended()
}
