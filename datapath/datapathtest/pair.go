// Package datapathtest makes devices for tests that need neither a kernel nor
// privileges: two of them, joined in memory.
package datapathtest

import (
	"net"
	"net/netip"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/datapath/xsk/xsktest"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Addresses of the devices, A's and B's.
var (
	IPv4 = [2]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}
	IPv6 = [2]netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")}
)

// Silent is a peer of both devices that has an address and never answers.
var Silent = netip.MustParseAddr("192.0.2.99")

// Options of a pair. The zero value is a link of 9000 bytes that loses nothing.
type Options struct {
	MTU  int          // of the link, in bytes; 0: 9000
	Hook xsktest.Hook // decides on each frame
}

const (
	ringSize  = 512
	frames    = 2 * ringSize
	perPort   = frames + 2*ringSize
	frameSize = 4096
)

// Pair makes two devices at the ends of a link. They end with the test.
func Pair(t testing.TB, o Options) (a, b *verbs.Context) {
	t.Helper()
	if o.MTU == 0 {
		o.MTU = 9000
	}
	pa, pb := xsktest.Pair(xsktest.Config{
		UMEMConfig: xsk.UMEMConfig{Frames: perPort, FrameSize: frameSize},
		FillSize:   ringSize, RxSize: ringSize, TxSize: ringSize, CompSize: ringSize,
		MultiBuffer: true, Hook: o.Hook,
	})
	return open(t, 0, pa, o.MTU), open(t, 1, pb, o.MTU)
}

func macOf(side int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0, byte(side + 1)} }

func open(t testing.TB, side int, p *xsktest.Port, mtu int) *verbs.Context {
	t.Helper()
	peers := map[netip.Addr]net.HardwareAddr{Silent: macOf(9)}
	for _, addr := range []netip.Addr{IPv4[1-side], IPv6[1-side]} {
		peers[addr] = macOf(1 - side)
	}
	dev, err := datapath.OpenPorts(&datapath.PortsConfig{
		Name: [2]string{"mem0", "mem1"}[side], MAC: macOf(side), MTU: mtu,
		Addresses: []netip.Addr{IPv4[side], IPv6[side]}, Neighbors: peers,
		Ports: []xsk.Port{p}, Waiters: []xsk.Waiter{xsktest.NewWaiter(p)},
		Options: &datapath.Options{RingSize: ringSize, Frames: frames, FrameSize: frameSize},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return dev
}
