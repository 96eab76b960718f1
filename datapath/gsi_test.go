package datapath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath/xsk/xsktest"
	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// madLen is the length of every management datagram (IBTA vol. 1, 13.4.2).
const madLen = 256

// TestGSIOnlyOne: a device has one queue pair 1, and the next after it is gone.
func TestGSIOnlyOne(t *testing.T) {
	r := newRig(t, rigOptions{})
	init := initOf(t, r.a)
	init.Type = ibv.QPTypeGSI
	for range 2 {
		q, err := r.a.CreateQP(init)
		if err != nil {
			t.Fatal(err)
		}
		if q.QPN() != ibv.GSIQPN || !r.steered[0].qpns[ibv.GSIQPN] {
			t.Errorf("number %d, steered %v", q.QPN(), r.steered[0].qpns)
		}
		if _, err := r.a.CreateQP(init); !errors.Is(err, ErrBusy) {
			t.Errorf("a second: %v, want ErrBusy", err)
		}
		if err := q.Destroy(); err != nil {
			t.Fatal(err)
		}
		if r.steered[0].qpns[ibv.GSIQPN] {
			t.Error("frames to a queue pair that is gone are still steered")
		}
	}
	r.a.root.privileged = func() bool { return false }
	if _, err := r.a.CreateQP(init); !errors.Is(err, ErrPermission) {
		t.Errorf("without the capability: %v, want ErrPermission", err)
	}
}

// captured are whole frames of the rig.
type captured struct {
	mu     sync.Mutex
	frames [][]byte
}

func (c *captured) hook(frame []byte) xsktest.Action {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames = append(c.frames, slices.Clone(frame))
	return xsktest.Deliver
}

// take returns the frames since the last take.
func (c *captured) take() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.frames
	c.frames = nil
	return f
}

// TestGSIOnTheWire compares the headers of a management datagram with those that
// every stack sends (IBTA vol. 1, 13.4; annex A17).
func TestGSIOnTheWire(t *testing.T) {
	conformance.Rule(t, "8.2-2", "8.3-2")
	var c captured
	r := newRig(t, rigOptions{hook: c.hook})
	p := verbstest.GSIPair(t, r.ca, r.cb, verbstest.Options{})
	if err := p.B.Recv(2, 0, verbs.GRHLen+madLen); err != nil {
		t.Fatal(err)
	}
	wr := p.Datagram(madLen)
	wr.RemoteQKey = 0x1234 // no other than the interface's own is ever sent
	if err := p.A.Post(wr); err != nil {
		t.Fatal(err)
	}
	if wc, err := p.B.Done(2, verbs.WCRecv); err != nil || wc.SrcQP != 1 || wc.QPNum != 1 || wc.ByteLen != verbs.GRHLen+madLen {
		t.Fatalf("completion %+v, %v", wc, err)
	}
	frames := c.take()
	if len(frames) != 1 {
		t.Fatalf("%d frames", len(frames))
	}
	var pkt wire.Packet
	if reason := pkt.Parse(frames[0]); reason != wire.Accept {
		t.Fatal(reason)
	}
	ip := frames[0][wire.EthernetLen:]
	if total, udp := binary.BigEndian.Uint16(ip[2:]), binary.BigEndian.Uint16(ip[24:]); total != 308 || udp != 288 {
		t.Errorf("IPv4 length %d and UDP length %d, want 308 and 288", total, udp)
	}
	deth := pkt.DETH()
	if pkt.Opcode != wire.UD|wire.SendOnly || pkt.Hdr().DestQP() != 1 || pkt.Hdr().PKey() != 0xFFFF ||
		deth.QKey() != 0x80010000 || deth.SrcQP() != 1 || pkt.UDPSrcPort != 0xD872 {
		t.Errorf("opcode %#x to %#x, P_Key %#x, Q_Key %#x from %#x, port %#x",
			pkt.Opcode, pkt.Hdr().DestQP(), pkt.Hdr().PKey(), deth.QKey(), deth.SrcQP(), pkt.UDPSrcPort)
	}
}

// TestGSIAnswers: a service answers by what it has received, with the flow label
// and the traffic class of the request, also where it has several addresses.
func TestGSIAnswers(t *testing.T) {
	var c captured
	r := newRig(t, rigOptions{hook: c.hook})
	a6, b6 := netip.MustParseAddr("fd00::a"), netip.MustParseAddr("fd00::b")
	if err := errors.Join(r.a.setAddresses([]netip.Addr{addrA, a6}), r.b.setAddresses([]netip.Addr{addrB, b6})); err != nil {
		t.Fatal(err)
	}
	r.routes[0].set(b6, macB)
	r.routes[1].set(a6, macA)
	p := verbstest.GSIPair(t, r.ca, r.cb, verbstest.Options{})
	for _, tt := range []struct {
		name     string
		from, to netip.Addr
		label    uint32
		port     uint16 // of request and answer
	}{
		{"IPv4", addrA, addrB, 0, 0xD872},
		{"IPv6", a6, b6, 0, 0xD872},
		{"IPv6 with a flow label", a6, b6, 0x5BA59, 0xFA4F},
	} {
		t.Run(tt.name, func(t *testing.T) {
			index, err := r.ca.GIDIndex(tt.from)
			if err != nil {
				t.Fatal(err)
			}
			ah, err := p.A.PD.CreateAH(&verbs.AddressVector{DGID: gidOf(tt.to), SGIDIndex: index, FlowLabel: tt.label, TrafficClass: 0x2a})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(p.B.Recv(2, 0, 512), p.A.Recv(3, 0, 512)); err != nil {
				t.Fatal(err)
			}
			c.take()
			wr := p.Datagram(madLen)
			wr.AH = ah
			if err := p.A.Post(wr); err != nil {
				t.Fatal(err)
			}
			wc, err := p.B.Done(2, verbs.WCRecv)
			if err != nil {
				t.Fatal(err)
			}
			back, err := p.B.PD.CreateAHFromWC(&wc, p.B.Buf)
			if err != nil {
				t.Fatal(err)
			}
			answer := bytes.Repeat([]byte{0x5a}, madLen)
			copy(p.B.Buf[600:], answer)
			err = p.B.Post(verbs.SendWR{
				WRID: 4, Opcode: verbs.OpSend, SGList: []verbs.SGE{p.B.MR.SGE(600, madLen)}, AH: back, RemoteQPN: wc.SrcQP,
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.A.Done(1, verbs.WCSend); err != nil {
				t.Fatal(err)
			}
			if wc, err = p.A.Done(3, verbs.WCRecv); err != nil || !bytes.Equal(p.A.Buf[verbs.GRHLen:wc.ByteLen], answer) {
				t.Fatalf("completion %+v, %v", wc, err)
			}
			if _, err := p.B.Done(4, verbs.WCSend); err != nil {
				t.Fatal(err)
			}
			for i, frame := range c.take() {
				var pkt wire.Packet
				if reason := pkt.Parse(frame); reason != wire.Accept {
					t.Fatal(reason)
				}
				if pkt.UDPSrcPort != tt.port || pkt.FlowLabel != tt.label || pkt.TOS != 0x2a || pkt.TTL != 64 {
					t.Errorf("frame %d: port %#x, flow label %#x, traffic class %#x, hop limit %d", i, pkt.UDPSrcPort, pkt.FlowLabel, pkt.TOS, pkt.TTL)
				}
			}
			if err := errors.Join(ah.Destroy(), back.Destroy()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestGSIDropped: what is not a management datagram for this port is counted.
func TestGSIDropped(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := verbstest.GSIPair(t, r.ca, r.cb, verbstest.Options{})
	ud := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	if err := p.B.Recv(2, 0, 512); err != nil {
		t.Fatal(err)
	}
	wr := ud.Datagram(madLen)
	wr.RemoteQPN = verbs.GSIQPN
	wr.RemoteQKey = verbs.GSIQKey // bit 31: the sender's own goes out
	if err := ud.A.Post(wr); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "drop_qkey", func() bool { return counterOf(t, r.b, "drop_qkey") == 1 })
	if err := p.B.QP.Destroy(); err != nil {
		t.Fatal(err)
	}
	if err := p.A.Post(p.Datagram(madLen)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "drop_unknown_qpn", func() bool { return counterOf(t, r.b, "drop_unknown_qpn") == 1 })
}
