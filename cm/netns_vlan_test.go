package cm_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// TestNetnsVLAN: a server whose address is in a VLAN and out of it answers in the VLAN who
// asks there, and its queue pair is in the VLAN, too. The client's address is in the VLAN only.
func TestNetnsVLAN(t *testing.T) {
	const vlan = 42
	hosts := netns.PairForTest(t, netns.PairOptions{})
	client, server := netip.MustParseAddr("198.51.100.1"), hosts.B.IPv4
	open := func(e, peer *netns.End, own, other netip.Addr) *verbs.Context {
		return openWith(t, e, &datapath.Options{VLANAddrs: []datapath.VLANAddr{{
			Addr: own, VLAN: vlan, Neighbors: map[netip.Addr]net.HardwareAddr{other: peer.MAC},
		}}})
	}
	a := open(hosts.A, hosts.B, client, server)
	b := open(hosts.B, hosts.A, server, client)
	to := netip.AddrPortFrom(server, 7471)
	l := listen(t, b, to.String(), nil)
	for _, tt := range []struct {
		name string
		from netip.Addr
		vlan uint16
	}{{"in it", client, vlan}, {"out of it", hosts.A.IPv4, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			active, passive := connect(t, l, a, &cm.Config{LocalAddr: netip.AddrPortFrom(tt.from, 0)})
			for _, c := range []*cm.Conn{active, passive} {
				if got := vlanOf(t, c.QP()); got != tt.vlan {
					t.Errorf("the queue pair at %v is in VLAN %d", c.LocalAddr(), got)
				}
			}
			echo(t, active, passive)
			if err := active.Disconnect(within(t)); err != nil {
				t.Error(err)
			}
			<-passive.Done()
		})
	}
	t.Run("service", func(t *testing.T) {
		client, server := newStation(t, a), newStation(t, b)
		listener := server.id(cm.PortSpaceUDP)
		server.ok(listener.BindAddr(to))
		server.ok(listener.Listen(0))
		id := client.id(cm.PortSpaceUDP)
		client.ok(id.ResolveAddr(netip.AddrPortFrom(netip.MustParseAddr("198.51.100.1"), 0), to, 5*time.Second))
		client.next(cm.EventAddrResolved)
		client.ok(id.ResolveRoute(5 * time.Second))
		client.next(cm.EventRouteResolved)
		client.ok(id.Connect(nil))
		asked := server.next(cm.EventConnectRequest).ID
		server.ok(asked.Accept(&cm.ConnParam{QPN: 0x123456}))
		e := client.next(cm.EventEstablished)
		if g, err := a.QueryGID(e.AV.SGIDIndex); err != nil || g.VLAN != vlan || e.Param.QPN != 0x123456 {
			t.Errorf("the way to the service is from %+v, %v; %+v", g, err, e.Param)
		}
	})
}

// vlanOf is the VLAN of a connected queue pair.
func vlanOf(t *testing.T, q *verbs.QP) uint16 {
	t.Helper()
	attr, err := q.Query()
	if err != nil {
		t.Fatal(err)
	}
	g, err := q.PD().Context().QueryGID(attr.AV.SGIDIndex)
	if err != nil {
		t.Fatal(err)
	}
	return g.VLAN
}
