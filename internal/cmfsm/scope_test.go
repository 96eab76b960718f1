package cmfsm

import (
	"net/netip"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// A link-local address is another on each link, and without a zone that of all.
func TestBindScopes(t *testing.T) {
	for _, c := range []struct {
		name, first, second string
		want                error
	}{
		{"two links", "[fe80::1%1]:7", "[fe80::1%2]:7", nil},
		{"one link", "[fe80::1%1]:7", "[fe80::1%1]:7", ErrAddrInUse},
		{"all after one", "[fe80::1%1]:7", "[fe80::1]:7", ErrAddrInUse},
		{"one after all", "[fe80::1]:7", "[fe80::1%1]:7", ErrAddrInUse},
		{"one after any address", "[::]:7", "[fe80::1%1]:7", ErrAddrInUse},
		{"another address of all", "[fe80::2]:7", "[fe80::1%1]:7", nil},
		{"a zone that tells nothing apart", "[fd00::1%1]:7", "[fd00::1%2]:7", ErrAddrInUse},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := testMachine()
			if _, err := bound(t, m, c.first, Options{}); err != nil {
				t.Fatal(err)
			}
			_, err := bound(t, m, c.second, Options{})
			wantErr(t, "the second", err, c.want)
		})
	}
}

// Two links of one host have peers and own addresses of the same names, and even the
// peers' numbers are the same. Each request goes to the listener of its link, and what comes
// of it stays there.
func TestScopes(t *testing.T) {
	local, remote := netip.MustParseAddr("fe80::2"), netip.MustParseAddr("fe80::1")
	for _, tt := range []struct {
		name, first, second string
		ps                  wire.PortSpace
	}{
		{"connections at both", "[fe80::2%1]:7174", "[fe80::2%2]:7174", wire.PortSpaceTCP},
		{"services at both", "[fe80::2%1]:7174", "[fe80::2%2]:7174", wire.PortSpaceUDP},
		{"connections at all links", "[fe80::2]:7174", "", wire.PortSpaceTCP},
		{"connections at all addresses", "[::]:7174", "", wire.PortSpaceTCP},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client, server := newHost(t, "client", "fe80::1", 1, Config{}), newHost(t, "server", "fe80::2", 1, Config{})
			typ := ibv.QPTypeRC
			if tt.ps == wire.PortSpaceUDP {
				typ = ibv.QPTypeUD
			}
			ok := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			var listeners []ID
			for _, addr := range []string{tt.first, tt.second} {
				if addr == "" {
					continue
				}
				id, err := server.Create(1, tt.ps, typ)
				ok(err)
				_, err = server.Bind(id, netip.MustParseAddrPort(addr))
				ok(err)
				ok(server.Listen(id, 0))
				listeners = append(listeners, id)
			}
			id, err := client.Create(1, tt.ps, typ)
			ok(err)
			p := activeParam
			ok(client.Connect(1, id, &Route{
				Local: netip.AddrPortFrom(remote.WithZone("9"), 0), Remote: netip.AddrPortFrom(local, testPort), MTU: ibv.MTU1024,
			}, &p))
			ask, _ := client.NextMAD()
			if ask.Local.Zone() != "9" || ask.Remote.Zone() != "9" {
				t.Errorf("the request goes from %v to %v", ask.Local, ask.Remote)
			}
			for link, scope := range []uint32{1, 2} {
				from := Path{Local: ibv.WithScope(local, scope), Remote: remote, HopLimit: 64}
				server.Handle(1, &from, ask.Data[:])
				e, got := server.NextEvent()
				want := listeners[min(link, len(listeners)-1)]
				if !got || e.Type != EventConnectRequest || e.Listener != want {
					t.Fatalf("on link %d: event %+v of listener %d, want %d", scope, e, e.Listener, want)
				}
				if ibv.Scope(e.Local.Addr()) != scope || ibv.Scope(e.Remote.Addr()) != scope {
					t.Errorf("on link %d: between %v and %v", scope, e.Local, e.Remote)
				}
				if typ == ibv.QPTypeRC {
					attr, err := server.QPAttr(e.ID, nil)
					if err != nil || attr.Scope != scope || attr.LocalGID.Addr() != local {
						t.Errorf("on link %d: queue pair of %v on link %d, %v", scope, attr.LocalGID, attr.Scope, err)
					}
				}
				ok(server.Accept(mono.Time(time.Second), e.ID, &ConnParam{QPN: 7, RNRRetryCount: 7}))
				answer, got := server.NextMAD()
				if !got || ibv.Scope(answer.Local) != scope || ibv.Scope(answer.Remote) != scope {
					t.Errorf("on link %d: the answer goes from %v to %v", scope, answer.Local, answer.Remote)
				}
			}
		})
	}
}
