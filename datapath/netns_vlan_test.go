package datapath_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestNetnsVLANAddrs connects two devices in a VLAN that neither kernel knows of:
// all their frames have the tag, and those between the interfaces' own addresses
// have none. A bridge in between hands the tag on beside the frame, as drivers do
// that take it off: then nobody sees it, and the address stands for the VLAN.
func TestNetnsVLANAddrs(t *testing.T) {
	const vlan, level = 42, 5
	for _, tt := range []struct {
		name   string
		bridge bool
		addrs  [2]netip.Addr
	}{
		{"IPv4", false, [2]netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")}},
		{"IPv6", false, [2]netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")}},
		{"tags taken off, IPv4", true, [2]netip.Addr{netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")}},
		{"tags taken off, IPv6", true, [2]netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hosts := netns.PairForTest(t, netns.PairOptions{Bridge: tt.bridge, MTU: 9000, Queues: 2})
			var devs [2]*verbs.Context
			o := verbstest.Options{UseGIDIndex: true}
			for i, e := range []*netns.End{hosts.A, hosts.B} {
				peer := []*netns.End{hosts.B, hosts.A}[i]
				devs[i] = openIn(t, e, &datapath.Options{VLANAddrs: []datapath.VLANAddr{{
					Addr: tt.addrs[i], VLAN: vlan, Neighbors: map[netip.Addr]net.HardwareAddr{tt.addrs[1-i]: peer.MAC},
				}}})
				entry := gidOfAddr(t, devs[i], tt.addrs[i])
				if o.GIDIndex[i] = entry.Index; entry.VLAN != vlan {
					t.Errorf("GID %+v", entry)
				}
			}
			var tap *netns.Capture
			if tt.bridge {
				tap = netns.CaptureForTest(t, hosts.Bridge, hosts.Taps[0])
			}
			rc, ud := verbstest.RCPair(t, devs[0], devs[1], o), verbstest.UDPair(t, devs[0], devs[1], o)
			plain := verbstest.RCPair(t, devs[0], devs[1], verbstest.Options{})
			for _, p := range []*verbstest.Pair{rc, ud, plain} {
				if err := errors.Join(p.Every(1, 4000), p.Reverse().Every(1, 4000)); err != nil {
					t.Errorf("%v: %v", p.A.QP.Type(), err)
				}
			}
			wc := sendAtLevel(t, ud, tt.addrs[1], o.GIDIndex[0], level)
			if tt.bridge {
				if wc.VLAN != 0 || wc.SL != 0 {
					t.Errorf("completion %+v: the tag was to be seen", wc)
				}
				checkTags(t, tap, tt.addrs, vlan)
			} else if wc.VLAN != vlan || wc.SL != level {
				t.Errorf("completion %+v", wc)
			}
			av, err := devs[1].InitAHFromWC(&wc, ud.B.Buf)
			if err != nil || av.SGIDIndex != o.GIDIndex[1] {
				t.Errorf("answer by %+v, %v", av, err)
			}
		})
	}
}

// sendAtLevel sends a datagram with a service level and returns what B got of it.
func sendAtLevel(t *testing.T, p *verbstest.Pair, to netip.Addr, sgid int, level uint8) verbs.WC {
	t.Helper()
	ah, err := p.A.PD.CreateAH(&verbs.AddressVector{DGID: to.As16(), SGIDIndex: sgid, SL: level})
	if err != nil {
		t.Fatal(err)
	}
	wr := p.Datagram(10)
	wr.AH = ah
	if err := errors.Join(p.B.Recv(3, 0, 200), p.A.Post(wr)); err != nil {
		t.Fatal(err)
	}
	wc, err := p.B.Done(3, verbs.WCRecv)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.A.Done(1, verbs.WCSend); err != nil {
		t.Fatal(err)
	}
	if err := ah.Destroy(); err != nil {
		t.Error(err)
	}
	return wc
}

func gidOfAddr(t *testing.T, dev *verbs.Context, a netip.Addr) verbs.GIDEntry {
	t.Helper()
	i, err := dev.GIDIndex(a)
	if err != nil {
		t.Fatal(err)
	}
	e, err := dev.QueryGID(i)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// checkTags checks that the RoCE frames of two addresses have a VLAN's tag and no
// others have one.
func checkTags(t *testing.T, c *netns.Capture, addrs [2]netip.Addr, vlan uint16) {
	t.Helper()
	frames, err := c.Stop() // what has come so far may not be all
	if err != nil {
		t.Error(err)
	}
	tagged, plain := 0, 0
	for _, f := range frames {
		var p wire.Packet
		if p.ParseReadOnly(f.Data) != wire.Accept {
			continue
		}
		inVLAN := slices.Contains(addrs[:], netip.AddrFrom16(p.SrcGID).Unmap())
		want := uint16(0)
		if inVLAN {
			want = vlan
			tagged++
		} else {
			plain++
		}
		if p.VLAN != want {
			t.Fatalf("a frame of %v has VLAN %d", netip.AddrFrom16(p.SrcGID), p.VLAN)
		}
	}
	if tagged == 0 || plain == 0 {
		t.Errorf("%d frames with a tag and %d without", tagged, plain)
	}
}

// datagramFrame is a datagram of four bytes from B's host to a queue pair of A's.
func datagramFrame(t *testing.T, from, to *netns.End, qpn, qkey uint32, tags ...uint32) []byte {
	t.Helper()
	var path wire.Path
	err := path.Set(&wire.PathFields{
		DstMAC: [6]byte(to.MAC), SrcMAC: [6]byte(from.MAC), SrcGID: from.IPv4.As16(), DstGID: to.IPv4.As16(), UDPSrcPort: 0xC001,
	})
	if err != nil {
		t.Fatal(err)
	}
	const ibLen = 12 + 8 + 4 + 4
	frame := make([]byte, path.Len()+ibLen)
	n := path.Put(frame, ibLen, 7)
	wire.BTHAt(frame[n:]).Encode(&wire.BTHFields{Opcode: wire.UD | wire.SendOnly, PKey: wire.DefaultPKey, DestQP: qpn})
	wire.DETHAt(frame[n+12:]).Encode(&wire.DETHFields{QKey: qkey, SrcQP: 0x77})
	copy(frame[n+20:], "ping")
	wire.PutICRC(frame, path.L3())
	for i, tag := range tags {
		frame = slices.Insert(frame, 12+4*i, binary.BigEndian.AppendUint32(nil, tag)...)
	}
	return frame
}

// inject sends a frame as it is.
func inject(t *testing.T, e *netns.End, frame []byte) {
	t.Helper()
	err := e.NS.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return errors.Join(unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: e.Ifindex}), unix.Close(fd))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNetnsTaggedFrames sends frames with tags of all kinds to an address that is
// in no VLAN.
func TestNetnsTaggedFrames(t *testing.T) {
	conformance.Rule(t, "4.5-11", "4.5-13")
	const ctag, stag = 0x8100 << 16, 0x88a8 << 16
	hosts := netns.PairForTest(t, netns.PairOptions{NoIPv6: true})
	a := openIn(t, hosts.A, nil)
	p := verbstest.UDPair(t, a, a, verbstest.Options{})
	for _, tt := range []struct {
		name    string
		tags    []uint32
		sl      uint8
		counter string // empty: received
	}{
		{"none", nil, 0, ""},
		{"a priority tag", []uint32{ctag | 3<<13}, 3, ""},
		{"drop eligible", []uint32{ctag | 1<<12}, 0, ""},
		{"a VLAN", []uint32{ctag | 5}, 0, "drop_vlan"},
		{"a service VLAN and a VLAN", []uint32{stag | 9, ctag | 5}, 0, "drop_vlan"},
		{"a service VLAN and a priority tag", []uint32{stag | 9, ctag}, 0, "drop_vlan"},
		{"two priority tags", []uint32{ctag, ctag}, 0, ""},
		{"three tags", []uint32{stag, ctag, ctag}, 0, "xdp_pass_ethertype"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := uint64(0)
			if tt.counter != "" {
				before = counterOf(t, a, tt.counter)
			}
			if err := p.A.Recv(3, 0, 100); err != nil {
				t.Fatal(err)
			}
			inject(t, hosts.B, datagramFrame(t, hosts.B, hosts.A, p.A.QP.Num(), p.A.QKey, tt.tags...))
			if tt.counter != "" {
				waitFor(t, tt.counter, func() bool { return counterOf(t, a, tt.counter) != before })
				inject(t, hosts.B, datagramFrame(t, hosts.B, hosts.A, p.A.QP.Num(), p.A.QKey)) // takes the receive
			}
			wc, err := p.A.Done(3, verbs.WCRecv)
			if err != nil || wc.SrcQP != 0x77 || wc.SL != tt.sl || string(p.A.Buf[40:44]) != "ping" {
				t.Errorf("completion %+v, %v", wc, err)
			}
		})
	}
}

// TestNetnsMacvlan: the addresses of a macvlan interface on top are the device's
// too; frames carry its link-layer address, and they come and go with it.
func TestNetnsMacvlan(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{Bridge: true, NoIPv6: true})
	a, b := openIn(t, hosts.A, nil), openIn(t, hosts.B, nil)
	addr := netip.MustParseAddr("192.0.2.101")
	mac := net.HardwareAddr{2, 0xa, 0xa, 0, 0, 1}
	var index int
	onLink(t, hosts.A, func(h *netlink.Handle, l netlink.Link) error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.ParentIndex, attrs.HardwareAddr = "mv0", l.Attrs().Index, mac
		upper := &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
		err := h.LinkAdd(upper)
		if errors.Is(err, unix.EOPNOTSUPP) {
			netns.Missing(t, "macvlan", "this kernel has no macvlan")
		}
		index = upper.Attrs().Index
		return errors.Join(err, h.AddrAdd(upper, hostNet(addr, 24)), h.LinkSetUp(upper))
	})
	waitFor(t, "the address", func() bool { _, err := a.GIDIndex(addr); return err == nil })
	entry := gidOfAddr(t, a, addr)
	if entry.IfIndex != index || entry.VLAN != 0 {
		t.Errorf("GID %+v, want one of interface %d", entry, index)
	}
	tap := netns.CaptureForTest(t, hosts.Bridge, hosts.Taps[0])
	o := verbstest.Options{UseGIDIndex: true, GIDIndex: [2]int{entry.Index, 0}, Timeout: 12}
	p := verbstest.RCPair(t, a, b, o)
	if err := errors.Join(p.Every(1, 3000), p.Reverse().Every(1, 3000)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "frames from and to the macvlan interface's address", func() bool {
		src, _ := lastMACs(tap, hosts.B.IPv4)
		_, dst := lastMACs(tap, addr)
		return bytes.Equal(src, mac) && bytes.Equal(dst, mac)
	})
	if err := verbstest.RCPair(t, a, b, verbstest.Options{}).Every(1, 3000); err != nil {
		t.Errorf("from the interface itself: %v", err)
	}
	onLink(t, hosts.A, func(h *netlink.Handle, _ netlink.Link) error {
		upper, err := h.LinkByName("mv0")
		if err != nil {
			return err
		}
		return h.LinkDel(upper)
	})
	waitFor(t, "the end of the address", func() bool { _, err := a.GIDIndex(addr); return err != nil })
	write(t, p, 9, 10)
	if wc, err := p.A.Next(); err != nil || wc.Status != verbs.WCRetryExceeded {
		t.Errorf("completion %+v, %v", wc, err)
	}
}
