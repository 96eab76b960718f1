package cmfsm

import (
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/mono"
	"github.com/roce-xdp/roce-xdp/internal/pcap"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// captured is a MAD of a capture between two Linux hosts with rdma_rxe.
type captured struct {
	path Path // as its receiver sees it
	mad  *wire.MAD
}

// captureOf reads the MADs of one of internal/wire's captures.
func captureOf(t *testing.T, name string) []captured {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "wire", "testdata", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcap.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	ps, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var all []captured
	for _, f := range ps {
		var p wire.Packet
		if drop := p.Parse(f.Data); drop != wire.Accept {
			t.Fatal(drop)
		}
		if p.Hdr().DestQP() != ibv.GSIQPN {
			continue
		}
		all = append(all, captured{
			Path{
				Local: ibv.GID(p.DstGID).Addr(), Remote: ibv.GID(p.SrcGID).Addr(),
				FlowLabel: p.FlowLabel, TrafficClass: p.TOS, HopLimit: p.TTL,
			},
			wire.MADAt(p.Payload[0]),
		})
	}
	return all
}

// script is a source of the numbers that a host of the capture drew.
type script struct{ next []uint64 }

func (s *script) Uint64() uint64 {
	v := s.next[0]
	s.next = s.next[1:]
	return v
}

func (s *script) put32(v uint32) { s.next = append(s.next, uint64(v)<<32) }

// replay plays one host of a capture.
type replay struct {
	t    *testing.T
	name string
	m    *Machine
	rand *script
	self netip.Addr
	now  mono.Time
	id   ID
}

func (r *replay) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("%s: %v", r.name, err)
	}
}

// act lets the application do what leads to a message of its host. What an
// application chooses is taken from the capture; the rest of the message is
// the machine's.
func (r *replay) act(c captured) {
	data := c.mad.Data()
	switch c.mad.Attr() {
	case wire.AttrREQ:
		if r.id != 0 { // the same again
			r.now = r.m.NextDeadline()
			r.m.Poll(r.now)
			return
		}
		f := wire.REQAt(data).Fields()
		r.rand.put32(f.LocalCommID)
		r.rand.next = append(r.rand.next, c.mad.TID())
		r.rand.put32(uint32(f.StartingPSN))
		r.connect(wire.PortSpaceTCP, f.ServiceID, f.PrivateData, f.PathMTU, &ConnParam{
			PrivateData: f.PrivateData[wire.CMALen:], QPN: f.LocalQPN, ResponderResources: f.ResponderResources,
			InitiatorDepth: f.InitiatorDepth, RetryCount: f.RetryCount, RNRRetryCount: f.RNRRetryCount, SRQ: f.SRQ, FlowControl: f.FlowControl,
		})
	case wire.AttrSIDRREQ:
		f := wire.SIDRREQAt(data).Fields()
		r.rand.put32(f.RequestID)
		r.rand.next = append(r.rand.next, c.mad.TID())
		r.connect(wire.PortSpaceUDP, f.ServiceID, f.PrivateData, 0, &ConnParam{PrivateData: f.PrivateData[wire.CMALen:]})
	case wire.AttrREP:
		f := wire.REPAt(data).Fields()
		r.check(r.m.Accept(r.now, r.id, &ConnParam{
			PrivateData: f.PrivateData, QPN: f.LocalQPN, ResponderResources: f.ResponderResources,
			InitiatorDepth: f.InitiatorDepth, RNRRetryCount: f.RNRRetryCount, SRQ: f.SRQ, FlowControl: f.FlowControl,
		}))
	case wire.AttrSIDRREP:
		f := wire.SIDRREPAt(data).Fields()
		r.check(r.m.Accept(r.now, r.id, &ConnParam{PrivateData: f.PrivateData, QPN: f.QPN, QKey: f.QKey}))
	case wire.AttrRTU:
		r.check(r.m.Accept(r.now, r.id, nil))
	case wire.AttrDREQ, wire.AttrDREP:
		r.check(r.m.Disconnect(r.now, r.id))
	default:
		// A REJ for want of a listener comes by itself.
	}
}

func (r *replay) connect(ps wire.PortSpace, service wire.ServiceID, private []byte, mtu ibv.MTU, p *ConnParam) {
	typ := ibv.QPTypeRC
	if ps == wire.PortSpaceUDP {
		typ = ibv.QPTypeUD
	}
	var err error
	r.id, err = r.m.Create(1, ps, typ)
	r.check(err)
	cma := wire.CMAAt(private).Fields()
	_, port, _ := service.Split()
	_, err = r.m.Bind(r.id, netip.AddrPortFrom(cma.Src, cma.SrcPort))
	r.check(err)
	r.check(r.m.Connect(r.now, r.id, &Route{
		Local: netip.AddrPortFrom(cma.Src, 0), Remote: netip.AddrPortFrom(cma.Dst, port), MTU: mtu,
	}, p))
}

// listen is on the port that the first message of the capture asks for, and
// prepares the numbers that the server drew.
func (r *replay) listen(all []captured) {
	ps, typ := wire.PortSpaceTCP, ibv.QPTypeRC
	service := wire.REQAt(all[0].mad.Data()).ServiceID()
	var tid uint64
	for _, c := range all {
		switch c.mad.Attr() {
		case wire.AttrSIDRREQ:
			ps, typ = wire.PortSpaceUDP, ibv.QPTypeUD
			service = wire.SIDRREQAt(c.mad.Data()).ServiceID()
		case wire.AttrREJ:
			return
		case wire.AttrREP:
			f := wire.REPAt(c.mad.Data()).Fields()
			r.rand.put32(uint32(f.StartingPSN))
			r.rand.put32(f.LocalCommID)
		case wire.AttrDREQ:
			if c.path.Remote == r.self {
				tid = c.mad.TID()
			}
		default:
		}
	}
	r.rand.next = append(r.rand.next, tid)
	id, err := r.m.Create(1, ps, typ)
	r.check(err)
	_, port, _ := service.Split()
	_, err = r.m.Bind(id, netip.AddrPortFrom(netip.IPv6Unspecified(), port))
	r.check(err)
	r.check(r.m.Listen(id, 3))
}

// run feeds the other host's messages and compares this one's, byte for byte.
func (r *replay) run(all []captured) {
	for i, c := range all {
		if c.path.Local == r.self {
			r.m.Handle(r.now, &c.path, c.mad[:])
			for e, ok := r.m.NextEvent(); ok; e, ok = r.m.NextEvent() {
				r.id = e.ID
			}
			continue
		}
		if c.path.Remote != r.self {
			r.t.Fatalf("%s: message %d is of neither host", r.name, i)
		}
		r.act(c)
		got, ok := r.m.NextMAD()
		if !ok {
			r.t.Fatalf("%s: no message where %v was captured", r.name, c.mad.Attr())
		}
		if d := cmp.Diff(*c.mad, got.Data); d != "" {
			r.t.Errorf("%s: message %d, %v (-captured +ours)\n%s", r.name, i, c.mad.Attr(), d)
		}
		if got.Local != c.path.Remote || got.Remote != c.path.Local || got.TrafficClass != c.path.TrafficClass || got.HopLimit != c.path.HopLimit {
			r.t.Errorf("%s: message %d, %v: on the path %+v, captured on %+v", r.name, i, c.mad.Attr(), got.Path, c.path)
		}
	}
	if got, ok := r.m.NextMAD(); ok {
		r.t.Errorf("%s: %v sent after the last message", r.name, got.Data.Attr())
	}
}

// Either host of each capture, played by a machine that draws the same numbers,
// sends the same bytes as Linux did.
func TestReplay(t *testing.T) {
	for _, c := range []struct {
		file   string
		count  int
		client State // at the end
		server State // 0 where nobody listens
	}{
		{"cm-rping.pcap", 5, StateTimewait, StateTimewait},
		{"cm-rping-v6.pcap", 5, StateTimewait, StateTimewait},
		{"cm-rping-mtu4096.pcap", 5, StateTimewait, StateTimewait},
		{"cm-drop-req.pcap", 6, StateTimewait, StateTimewait},
		{"cm-ucmatose.pcap", 5, StateTimewait, StateTimewait},
		{"cm-reject.pcap", 2, StateClosed, 0},
		{"cm-udaddy.pcap", 2, StateSIDRDone, StateSIDRDone},
	} {
		all := captureOf(t, c.file)
		if len(all) != c.count {
			t.Fatalf("%s: %d MADs, want %d", c.file, len(all), c.count)
		}
		for _, server := range []bool{false, true} {
			r := &replay{t: t, name: c.file + ", client", rand: &script{}, self: all[0].path.Remote, now: 1}
			guid, want := uint64(0x505400fffe77010c), c.client
			msgs := all
			if server {
				r.name, r.self = c.file+", server", all[0].path.Local
				guid, want = 0x505400fffe77010b, c.server
				if c.file == "cm-drop-req.pcap" {
					msgs = all[1:] // the first REQ was lost
				}
			}
			r.m = New(Config{GUID: guid, Rand: r.rand})
			if server {
				r.listen(msgs)
			}
			r.run(msgs)
			if want == 0 {
				if r.m.Len() != 0 {
					t.Errorf("%s: %d ids", r.name, r.m.Len())
				}
				continue
			}
			if info, err := r.m.Info(r.id); err != nil || info.State != want {
				t.Errorf("%s: ends in %v, want %v; %v", r.name, info.State, want, err)
			}
		}
	}
}

// A hardware adapter's REQ, with vendor options, longer timeouts, a priority tag
// and congestion marks, is a request like others.
func TestREQOfHardware(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "wire", "testdata", "public", "hca-cm-req.hex"))
	if err != nil {
		t.Fatal(err)
	}
	frame, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	var p wire.Packet
	if drop := p.Parse(frame); drop != wire.Accept {
		t.Fatal(drop)
	}
	req := wire.REQAt(wire.MADAt(p.Payload[0]).Data()).Fields()
	_, port, _ := req.ServiceID.Split()
	m := testMachine()
	l, err := bound(t, m, netip.AddrPortFrom(netip.IPv4Unspecified(), port).String(), Options{})
	wantErr(t, "bind", err, nil)
	wantErr(t, "listen", m.Listen(l, 1), nil)
	// Addresses as GIDs have them are as good.
	m.Handle(1, &Path{
		Local: netip.AddrFrom16(p.DstGID), Remote: netip.AddrFrom16(p.SrcGID), TrafficClass: p.TOS, HopLimit: p.TTL,
	}, p.Payload[0])
	e, ok := m.NextEvent()
	if !ok || e.Type != EventConnectRequest || e.Param.QPN != req.LocalQPN || e.Local.String() != "192.170.1.50:27411" || e.Remote.Addr().String() != "192.170.1.2" {
		t.Fatalf("event %+v", e)
	}
	attr, err := m.QPAttr(e.ID, nil)
	wantErr(t, "attributes", err, nil)
	if attr.Timeout != 18 || attr.AV.FlowLabel != 0x5BA59 || attr.SQPSN != uint32(req.StartingPSN) {
		t.Errorf("attributes %+v", attr)
	}
	wantErr(t, "accept", m.Accept(1, e.ID, &ConnParam{QPN: 9}), nil)
	// 2^(22-8) ms.
	if d := m.NextDeadline(); d != mono.Time(1).Add(cmTime(22)) {
		t.Errorf("the REP is repeated after %v", d.Sub(1))
	}
}
