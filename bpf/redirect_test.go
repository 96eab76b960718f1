package bpf

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
)

// socket opens an AF_XDP socket on a queue of an interface of the namespace.
func socket(t testing.TB, ns *namespace, ifindex, queue int) *xsk.Socket {
	t.Helper()
	var s *xsk.Socket
	ns.do(func() (err error) {
		s, err = xsk.NewSocket(ifindex, queue, &xsk.Options{
			Mode: xsk.Copy, MultiBuffer: true, UMEMConfig: xsk.UMEMConfig{Frames: 256},
		})
		return err
	})
	t.Cleanup(func() { check(t, s.Close()) })
	return s
}

// listen opens a socket, gives it frames to fill, and registers it.
func listen(t testing.TB, p *pair, s *Steer, queue int) *xsk.Socket {
	t.Helper()
	sock := socket(t, p.rx, p.ifindex, queue)
	addrs := make([]uint64, 128)
	pool := xsk.NewPool(sock.UMEM(), 0, len(addrs))
	if n := sock.Fill(addrs[:pool.Get(addrs)]); n != len(addrs) {
		t.Fatalf("%d of %d frames taken", n, len(addrs))
	}
	check(t, s.Register(queue, sock.FD()))
	return sock
}

// received waits for one frame and puts its buffers together.
func received(t testing.TB, sock *xsk.Socket) []byte {
	t.Helper()
	descs := make([]xsk.Desc, 32)
	var n int
	eventually(t, "a frame in the ring", func() bool {
		n = sock.Receive(descs)
		return n > 0
	})
	var frame []byte
	for _, d := range descs[:n] {
		frame = append(frame, sock.Frame(d)...)
	}
	return frame
}

// TestNetnsRedirect sends real frames into real sockets, of one and of several
// buffers, and wants nothing else to arrive there.
func TestNetnsRedirect(t *testing.T) {
	requireNetns(t)
	for _, mode := range []Mode{ModeNative, ModeGeneric} {
		t.Run(mode.String(), func(t *testing.T) {
			p, s := newPair(t, queues{}), load(t, nil)
			for _, end := range []*namespace{p.rx, p.tx} {
				name := map[*namespace]string{p.rx: "rx0", p.tx: "tx0"}[end]
				end.do(func() error { return setMTU(name, 9000) })
			}
			check(t, p.attach(s, mode))
			check(t, s.AddAddress(ours4))
			check(t, s.AddAddress(ours6))
			check(t, s.AddQPN(ourQPN))
			sock := listen(t, p, s, 0)
			for _, frame := range [][]byte{
				roce(), roce6(payload(1024)), roce(payload(4096)), roce6(payload(8000)),
			} {
				p.send(roce(port(53)), 1)
				p.send(roce6(qpn(0x12)), 1)
				p.send(frame, 1)
				if got := received(t, sock); !bytes.Equal(got, frame) {
					t.Errorf("%d bytes arrived, %d were sent, or they differ", len(got), len(frame))
				}
			}
			c := counts(t, s)
			if c[VerdictRedirect] != 4 || c[VerdictDropQPN] != 4 {
				t.Errorf("%d redirected, %d dropped; want 4 and 4", c[VerdictRedirect], c[VerdictDropQPN])
			}
			// A socket that is closed leaves the map without being unregistered.
			check(t, sock.Close())
			eventually(t, "frames without a socket", func() bool {
				p.send(roce(), 1)
				return counts(t, s)[VerdictDropNoSocket] > 0
			})
		})
	}
}

func setMTU(name string, mtu int) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetMTU(l, mtu)
}

// TestNetnsQueues: a frame reaches the socket of the queue that it came in on.
func TestNetnsQueues(t *testing.T) {
	p, s := newPair(t, queues{rxOfRx: 2, txOfTx: 2}), load(t, nil)
	check(t, p.attach(s, ModeNative))
	check(t, s.AddAddress(ours4))
	check(t, s.AddQPN(ourQPN))
	receivers := []*xsk.Socket{listen(t, p, s, 0), listen(t, p, s, 1)}
	for queue := range receivers {
		t.Run(fmt.Sprint("queue ", queue), func(t *testing.T) {
			sender := socket(t, p.tx, p.peer, queue)
			frame := roce(payload(4 * (queue + 1)))
			copy(sender.UMEM().Bytes(), frame)
			if n := sender.Submit([]xsk.Desc{{Len: uint32(len(frame))}}); n != 1 {
				t.Fatal("the transmit ring is full")
			}
			check(t, sender.Kick())
			if got := received(t, receivers[queue]); !bytes.Equal(got, frame) {
				t.Errorf("%d bytes arrived, want %d", len(got), len(frame))
			}
			if n := receivers[1-queue].RxAvail(); n != 0 {
				t.Errorf("%d frames on the other queue", n)
			}
		})
	}
}
