package datapath_test

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

var groups = []netip.Addr{netip.MustParseAddr("239.192.0.7"), netip.MustParseAddr("ff3e::4791:7")}

// caster sends datagrams from A of a pair to a group.
type caster struct {
	p  *verbstest.Pair
	ah *verbs.AH
}

func newCaster(t *testing.T, p *verbstest.Pair, from, group netip.Addr) *caster {
	t.Helper()
	index, err := p.A.Dev.GIDIndex(from)
	if err != nil {
		t.Fatal(err)
	}
	ah, err := p.A.PD.CreateAH(&verbs.AddressVector{DGID: group.As16(), SGIDIndex: index})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ah.Destroy(); err != nil {
			t.Error(err)
		}
	})
	return &caster{p, ah}
}

// send sends the text in the sender's buffer.
func (c *caster) send(t *testing.T, text string) {
	t.Helper()
	wr := c.p.Datagram(copy(c.p.A.Buf, text))
	wr.AH, wr.RemoteQPN = c.ah, verbs.MulticastQPN
	if err := c.p.A.Post(wr); err != nil {
		t.Fatal(err)
	}
	for {
		wc, err := c.p.A.Next()
		if err != nil || wc.Err() != nil {
			t.Fatal(err, wc.Err())
		}
		if wc.Opcode == verbs.WCSend {
			return
		}
	}
}

// mailbox keeps receives posted at an end and reads what comes.
type mailbox struct {
	e   *verbstest.End
	got []string
}

const letter = 256 // bytes of each receive

func newMailbox(t *testing.T, e *verbstest.End) *mailbox {
	t.Helper()
	for i := range 32 {
		if err := e.Recv(uint64(i), 4096+i*letter, letter); err != nil {
			t.Fatal(err)
		}
	}
	return &mailbox{e: e}
}

// read takes what has come and returns how often a text was among all so far.
func (m *mailbox) read(t *testing.T, text string) (n int) {
	t.Helper()
	var wcs [16]verbs.WC
	for k := m.e.CQ.Poll(wcs[:]); k != 0; k = m.e.CQ.Poll(wcs[:]) {
		for _, wc := range wcs[:k] {
			if err := wc.Err(); err != nil {
				t.Fatal(err)
			}
			if wc.Opcode != verbs.WCRecv {
				continue
			}
			at := 4096 + int(wc.WRID)*letter
			m.got = append(m.got, string(m.e.Buf[at+verbs.GRHLen:at+int(wc.ByteLen)]))
			if err := m.e.Recv(wc.WRID, at, letter); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, have := range m.got {
		if have == text {
			n++
		}
	}
	return n
}

// roceTo counts the RoCE frames of a capture to an address.
func roceTo(c *netns.Capture, to netip.Addr) (n int) {
	for _, f := range c.Frames() {
		var p wire.Packet
		if p.ParseReadOnly(f.Data) == wire.Accept && netip.AddrFrom16(p.DstGID).Unmap() == to {
			n++
		}
	}
	return n
}

// report finds an IGMPv3 or MLDv2 report about a group, and what it says.
func reportOf(c *netns.Capture, group netip.Addr) (kinds []byte) {
	for _, f := range c.Frames() {
		var records []byte // of the report
		switch {
		case len(f.Data) > 14+24+8 && f.Data[12] == 8 && f.Data[14+9] == 2 && f.Data[14+24] == 0x22:
			records = f.Data[14+24+8:]
		case len(f.Data) > 14+48+8 && f.Data[12] == 0x86 && f.Data[14+6] == 0 && f.Data[14+40] == 58 && f.Data[14+48] == 143:
			records = f.Data[14+48+8:]
		}
		for addr := group.AsSlice(); len(records) >= 4+len(addr); {
			if bytes.Equal(records[4:4+len(addr)], addr) {
				kinds = append(kinds, records[0])
			}
			sources := int(records[2])<<8 | int(records[3])
			records = records[min(len(records), 4+len(addr)*(1+sources)+4*int(records[1])):]
		}
	}
	return kinds
}

// Kinds of records in reports (RFC 3376, 4.2.12): to exclude no source is to
// join, to include none is to leave.
const (
	changeToInclude = 3
	changeToExclude = 4
)

// TestNetnsMulticast has three hosts on a bridge that forwards a group only to
// those that have joined it: what is sent to the group reaches the members, and a
// kernel socket on one of them, and nobody else.
func TestNetnsMulticast(t *testing.T) {
	lan := netns.LANForTest(t, 3, netns.LANOptions{PairOptions: netns.PairOptions{Queues: 2}, Snooping: true})
	a, b, c := openIn(t, lan.Hosts[0], nil), openIn(t, lan.Hosts[1], nil), openIn(t, lan.Hosts[2], nil)
	one, two := verbstest.UDPair(t, a, b, verbstest.Options{}), verbstest.UDPair(t, a, b, verbstest.Options{})
	third := verbstest.UDPair(t, a, c, verbstest.Options{})
	time.Sleep(300 * time.Millisecond) // until the bridge trusts what it has learned
	boxes := []*mailbox{newMailbox(t, one.A), newMailbox(t, one.B), newMailbox(t, two.B), newMailbox(t, third.B)}
	members, stranger := boxes[:3], boxes[3] // the sender is one of them
	for i, group := range groups {
		t.Run(group.String(), func(t *testing.T) {
			from := lan.Hosts[0].Addrs()[i]
			tapB := netns.CaptureForTest(t, lan.Bridge, lan.Taps[1])
			tapC := netns.CaptureForTest(t, lan.Bridge, lan.Taps[2])
			listener := listenGroup(t, lan.Hosts[1], group)
			out := newCaster(t, one, from, group)
			for _, m := range members {
				if err := m.e.QP.AttachMulticast(group.As16()); err != nil {
					t.Fatal(err)
				}
			}
			waitFor(t, "the report", func() bool { return bytes.Contains(reportOf(tapB, group), []byte{changeToExclude}) })
			waitFor(t, "the first datagram", func() bool {
				out.send(t, "begin "+group.String())
				time.Sleep(10 * time.Millisecond)
				return members[1].read(t, "begin "+group.String()) != 0
			})
			text := "all of " + group.String()
			out.send(t, text)
			for k, m := range members {
				waitFor(t, "the copies", func() bool { return m.read(t, text) != 0 })
				if n := m.read(t, text); n != 1 {
					t.Errorf("member %d has %d copies", k, n)
				}
			}
			toListener(t, lan.Hosts[0], from, listener, group)
			if n := stranger.read(t, text) + roceTo(tapC, group); n != 0 {
				t.Errorf("%d frames reached a host that has not joined", n)
			}

			if err := errors.Join(members[0].e.QP.DetachMulticast(group.As16()), members[1].e.QP.DetachMulticast(group.As16())); err != nil {
				t.Fatal(err)
			}
			text = "but one of " + group.String()
			out.send(t, text)
			waitFor(t, "the copy", func() bool { return members[2].read(t, text) == 1 })
			if n := members[0].read(t, text) + members[1].read(t, text); n != 0 {
				t.Errorf("%d copies after the end", n)
			}
			if err := members[2].e.QP.DetachMulticast(group.As16()); err != nil {
				t.Fatal(err)
			}
			if kinds := reportOf(tapB, group); bytes.Contains(kinds, []byte{changeToInclude}) {
				t.Errorf("the host left the group with a socket of its own in it: reports %v", kinds)
			}
			listener.Close()
			waitFor(t, "the report of the end", func() bool { return bytes.Contains(reportOf(tapB, group), []byte{changeToInclude}) })
		})
	}
}

const listenPort = 5000

// listenGroup is a socket of the kernel on a group.
func listenGroup(t *testing.T, e *netns.End, group netip.Addr) *net.UDPConn {
	t.Helper()
	var l *net.UDPConn
	err := e.NS.Do(func() error {
		ifc, err := net.InterfaceByName(e.Ifname)
		if err == nil {
			l, err = net.ListenMulticastUDP("udp", ifc, &net.UDPAddr{IP: group.AsSlice(), Port: listenPort})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// toListener sends from a host's kernel to a listener on a group until it hears.
func toListener(t *testing.T, e *netns.End, from netip.Addr, l *net.UDPConn, group netip.Addr) {
	t.Helper()
	var s *net.UDPConn
	err := e.NS.Do(func() (err error) {
		s, err = net.DialUDP("udp", &net.UDPAddr{IP: from.AsSlice()}, &net.UDPAddr{IP: group.AsSlice(), Port: listenPort, Zone: e.Ifname})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	waitFor(t, "the kernel's socket", func() bool {
		if _, err := s.Write([]byte("kernel")); err != nil {
			t.Fatal(err)
		}
		if err := l.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 32)
		n, err := l.Read(buf)
		return err == nil && string(buf[:n]) == "kernel"
	})
}
