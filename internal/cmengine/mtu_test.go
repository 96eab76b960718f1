package cmengine_test

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/internal/cmengine"
	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// asked counts how often a device is asked for its port.
type asked struct {
	verbs.Provider
	port atomic.Int64
}

func (a *asked) QueryPort() (verbs.PortAttr, error) {
	a.port.Add(1)
	return a.Provider.QueryPort()
}

// TestAskedForMTU: only a request makes the engine ask what the link carries; what follows of
// a connection, at both ends, does not.
func TestAskedForMTU(t *testing.T) {
	a, b := datapathtest.Pair(t, datapathtest.Options{})
	ends := [2]*asked{{Provider: a.Provider()}, {Provider: b.Provider()}}
	events := [2]chan cmfsm.Event{make(chan cmfsm.Event, 16), make(chan cmfsm.Event, 16)}
	var clients [2]cmengine.Client
	for i, p := range ends {
		clients[i] = openTo(t, verbs.NewContext(p), func(e cmfsm.Event) { events[i] <- e })
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(end int, typ cmfsm.EventType) cmfsm.Event {
		t.Helper()
		select {
		case e := <-events[end]:
			if e.Type != typ {
				t.Fatalf("event %v, want %v", e.Type, typ)
			}
			return e
		case <-time.After(30 * time.Second):
			t.Fatalf("no event, want %v", typ)
		}
		panic("unreachable")
	}
	before := [2]int64{ends[0].port.Load(), ends[1].port.Load()}
	l, err := clients[1].Create(wire.PortSpaceTCP, ibv.QPTypeRC)
	ok(err)
	at, err := clients[1].Bind(l, netip.AddrPortFrom(datapathtest.IPv4[1], 7471))
	ok(err)
	ok(clients[1].Listen(l, 0))
	for n := int64(1); n <= 3; n++ {
		way, err := clients[0].Resolve(t.Context(), cmengine.Query{Dst: at.Addr()})
		ok(err)
		id, err := clients[0].Create(wire.PortSpaceTCP, ibv.QPTypeRC)
		ok(err)
		ok(clients[0].Connect(id, &cmfsm.Route{Local: netip.AddrPortFrom(way.Src, 0), Remote: at, MTU: way.MTU}, &cmfsm.ConnParam{QPN: uint32(n)<<8 | 1}))
		e := want(1, cmfsm.EventConnectRequest)
		ok(clients[1].Accept(e.ID, &cmfsm.ConnParam{QPN: uint32(n)<<8 | 2}))
		want(0, cmfsm.EventConnectResponse)
		ok(clients[0].Accept(id, nil))
		want(1, cmfsm.EventEstablished)
		want(0, cmfsm.EventEstablished)
		ok(clients[0].Disconnect(id))
		want(1, cmfsm.EventDisconnected)
		ok(clients[1].Disconnect(e.ID))
		want(0, cmfsm.EventDisconnected)
		for i, asks := range []int64{0, n} {
			if got := ends[i].port.Load() - before[i]; got != asks {
				t.Errorf("after %d connections, end %d has asked %d times, want %d", n, i, got, asks)
			}
		}
		ok(clients[0].Destroy(id))
		ok(clients[1].Destroy(e.ID))
	}
}
