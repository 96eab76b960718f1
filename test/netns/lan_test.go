package netns_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

func TestNetnsLANSize(t *testing.T) {
	for _, n := range []int{-1, 0, 17} {
		if l, err := netns.NewLAN(n, netns.LANOptions{}); err == nil {
			l.Close()
			t.Errorf("a LAN of %d hosts was made", n)
		}
	}
}

// TestNetnsLANSnooping: a bridge that snoops gives a group's datagrams to the host
// that has joined it and to no other, one that does not gives them to all.
func TestNetnsLANSnooping(t *testing.T) {
	group := netip.MustParseAddr("239.192.0.7")
	for _, snooping := range []bool{false, true} {
		t.Run(fmt.Sprintf("snooping %v", snooping), func(t *testing.T) {
			l := netns.LANForTest(t, 3, netns.LANOptions{PairOptions: netns.PairOptions{NoIPv6: true}, Snooping: snooping})
			exchange(t, l.Hosts[0], l.Hosts[2], l.Hosts[0].IPv4)
			if snooping {
				time.Sleep(300 * time.Millisecond) // until the bridge trusts what it has learned
			}
			member := listenGroup(t, l.Hosts[1], group)
			other := netns.CaptureForTest(t, l.Hosts[2].NS, l.Hosts[2].Ifname)
			heard := false
			for range 100 { // the report takes a moment to the bridge
				send(t, l.Hosts[0], netip.AddrPortFrom(group, 5000))
				if heard = hears(t, member, 50*time.Millisecond); heard {
					break
				}
			}
			if !heard {
				t.Fatal("the host that has joined received nothing")
			}
			if n := heardHello(t, other); (n == 0) != snooping {
				t.Errorf("the host that has not joined received it %d times", n)
			}
		})
	}
}

// listenGroup joins a group on port 5000.
func listenGroup(t *testing.T, e *netns.End, group netip.Addr) *net.UDPConn {
	t.Helper()
	var c *net.UDPConn
	err := e.NS.Do(func() error {
		ifc, err := net.InterfaceByName(e.Ifname)
		if err == nil {
			c, err = net.ListenMulticastUDP("udp4", ifc, net.UDPAddrFromAddrPort(netip.AddrPortFrom(group, 5000)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func send(t *testing.T, e *netns.End, to netip.AddrPort) {
	t.Helper()
	err := e.NS.Do(func() error {
		c, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(e.IPv4, 0)), net.UDPAddrFromAddrPort(to))
		if err != nil {
			return err
		}
		_, err = c.Write([]byte("hello"))
		return errors.Join(err, c.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// hears waits for a datagram of send.
func hears(t *testing.T, c *net.UDPConn, patience time.Duration) bool {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	n, err := c.Read(buf)
	return err == nil && string(buf[:n]) == "hello"
}

// heardHello ends a capture and counts the datagrams of send.
func heardHello(t *testing.T, c *netns.Capture) (n int) {
	t.Helper()
	frames, err := c.Stop()
	if err != nil {
		t.Error(err)
	}
	for _, f := range frames {
		if bytes.HasSuffix(f.Data, []byte("hello")) {
			n++
		}
	}
	return n
}
