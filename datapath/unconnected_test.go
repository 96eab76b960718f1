package datapath

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath/xsk/xsktest"
	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// bothWays runs every operation of a pair in both directions.
func bothWays(p *verbstest.Pair, sizes ...int) error {
	return errors.Join(p.Every(sizes...), p.Reverse().Every(sizes...))
}

func TestUnreliableConnection(t *testing.T) {
	for _, tt := range []struct {
		name string
		rig  rigOptions
	}{
		{"one queue", rigOptions{}},
		{"MTU of Ethernet", rigOptions{mtu: 1500}},
		{"four queues, crossed", rigOptions{queues: 4, crossed: true}},
		{"frames of 2048 bytes", rigOptions{opts: Options{FrameSize: 2048}}},
		{"no background", rigOptions{opts: Options{NoBackground: true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.rig)
			p := verbstest.UCPair(t, r.ca, r.cb, verbstest.Options{})
			if tt.rig.opts.NoBackground {
				defer keepDriving(r.ca)()
				defer keepDriving(r.cb)()
			}
			m := p.MTU.Bytes()
			if err := bothWays(p, 0, 1, 3, 64, m-1, m, m+1, 2*m, 3*m+1); err != nil {
				t.Fatal(err)
			}
			r.checkMemory()
		})
	}
}

func TestDatagrams(t *testing.T) {
	for _, tt := range []struct {
		name string
		rig  rigOptions
		mtu  verbs.MTU
	}{
		{"one queue", rigOptions{}, verbs.MTU4096},
		{"MTU of Ethernet", rigOptions{mtu: 1500}, verbs.MTU1024},
		{"four queues, crossed", rigOptions{queues: 4, crossed: true}, verbs.MTU4096},
		{"no background", rigOptions{opts: Options{NoBackground: true}}, verbs.MTU4096},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.rig)
			p := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
			if p.MTU != tt.mtu {
				t.Errorf("port MTU %v, want %v", p.MTU, tt.mtu)
			}
			if tt.rig.opts.NoBackground {
				defer keepDriving(r.ca)()
				defer keepDriving(r.cb)()
			}
			m := p.MTU.Bytes()
			if err := bothWays(p, 0, 1, 2, 3, 4, 64, m-1, m); err != nil {
				t.Fatal(err)
			}
			r.checkMemory()
		})
	}
}

// TestUnconnectedLoopback: queue pairs of one device reach each other without the
// wire.
func TestUnconnectedLoopback(t *testing.T) {
	for _, queues := range []int{1, 2} {
		r := newRig(t, rigOptions{queues: queues})
		uc := verbstest.UCPair(t, r.ca, r.ca, verbstest.Options{})
		ud := verbstest.UDPair(t, r.ca, r.ca, verbstest.Options{})
		if err := errors.Join(bothWays(uc, 0, 5, 4096, 9000), bothWays(ud, 0, 5, 4096)); err != nil {
			t.Fatal(err)
		}
		if n := counterOf(t, r.a, "xsk_tx_frames"); n != 0 {
			t.Errorf("%d frames left on the wire", n)
		}
		r.checkMemory()
	}
}

// TestDatagramsIPv6: a device with both families answers in the right one.
func TestDatagramsIPv6(t *testing.T) {
	r := newRig(t, rigOptions{})
	a6, b6 := netip.MustParseAddr("fd00::a"), netip.MustParseAddr("fd00::b")
	if err := errors.Join(r.a.setAddresses([]netip.Addr{addrA, a6}), r.b.setAddresses([]netip.Addr{addrB, b6})); err != nil {
		t.Fatal(err)
	}
	r.routes[0].set(b6, macB)
	r.routes[1].set(a6, macA)
	p := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{UseGIDIndex: true, GIDIndex: [2]int{1, 1}})
	if err := bothWays(p, 0, 1, 4096); err != nil {
		t.Fatal(err)
	}
	uc := verbstest.UCPair(t, r.ca, r.cb, verbstest.Options{UseGIDIndex: true, GIDIndex: [2]int{1, 1}})
	if err := bothWays(uc, 0, 1, 9000); err != nil {
		t.Fatal(err)
	}
}

// TestDatagramsDropped: what must not be received leaves its receive work request
// to the next datagram, and a counter.
func TestDatagramsDropped(t *testing.T) {
	conformance.Rule(t, "4.5-6")
	for _, tt := range []struct {
		name    string
		change  func(p *verbstest.Pair, wr *verbs.SendWR)
		receive int // bytes of the receive work request
		counter string
	}{
		{"wrong Q_Key", func(_ *verbstest.Pair, wr *verbs.SendWR) { wr.RemoteQKey++ }, 100, "drop_qkey"},
		{"unknown queue pair", func(_ *verbstest.Pair, wr *verbs.SendWR) { wr.RemoteQPN ^= 1 }, 100, "drop_unknown_qpn"},
		{"too long for the buffer", func(*verbstest.Pair, *verbs.SendWR) {}, 40 + 49, "drop_buffer_size"},
		{"nothing but the payload fits", func(*verbstest.Pair, *verbs.SendWR) {}, 50, "drop_buffer_size"},
		{"no receive", func(*verbstest.Pair, *verbs.SendWR) {}, -1, "drop_no_receive"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			p := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
			wr := p.Datagram(50)
			tt.change(p, &wr)
			if tt.receive >= 0 {
				if err := p.B.Recv(7, 0, tt.receive); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.A.Post(wr); err != nil {
				t.Fatal(err)
			}
			if _, err := p.A.Done(1, verbs.WCSend); err != nil { // nobody tells the sender
				t.Fatal(err)
			}
			waitFor(t, tt.counter, func() bool { return counterOf(t, r.b, tt.counter) == 1 })
			if tt.receive < 0 {
				return
			}
			small := p.Datagram(10)
			if err := p.A.Post(small); err != nil {
				t.Fatal(err)
			}
			if wc, err := p.B.Done(7, verbs.WCRecv); err != nil || wc.ByteLen != 50 {
				t.Errorf("the next datagram: %+v, %v", wc, err)
			}
		})
	}
}

// TestDatagramLongerThanMTU: the port's MTU bounds a datagram, that of now.
func TestDatagramLongerThanMTU(t *testing.T) {
	r := newRig(t, rigOptions{mtu: 1500})
	p := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	setMTU := func(d *Device, mtu int) {
		link := d.link
		link.mtu = mtu
		d.setLink(link)
	}
	setMTU(r.a, 9000)
	setMTU(r.b, 9000)
	if err := p.Send(4096, false); err != nil {
		t.Fatalf("with an MTU of 9000: %v", err)
	}
	setMTU(r.a, 600)
	if err := p.Send(512, false); err != nil {
		t.Fatalf("with an MTU of 600: %v", err)
	}
	if err := errors.Join(p.A.Post(p.Datagram(513)), p.A.Post(p.Datagram(1))); err != nil {
		t.Fatal(err)
	}
	for _, want := range []verbs.WCStatus{verbs.WCLocalLength, verbs.WCFlushed} {
		if wc, err := p.A.Next(); err != nil || wc.Status != want {
			t.Errorf("completion %+v, %v; want %v", wc, err, want)
		}
	}
	if err := p.Reverse().Send(100, false); err != nil {
		t.Errorf("receiving in SQE: %v", err)
	}
	if err := p.A.QP.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	if err := p.Send(100, false); err != nil {
		t.Errorf("after SQE: %v", err)
	}
}

// TestAnswerByCompletion: a server that knows nobody answers each by what it
// received.
func TestAnswerByCompletion(t *testing.T) {
	conformance.Rule(t, "8.3-3")
	r := newRig(t, rigOptions{})
	p := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	if err := errors.Join(p.B.Recv(2, 0, 100), p.A.Recv(3, 0, 100)); err != nil {
		t.Fatal(err)
	}
	copy(p.A.Buf[200:], "question")
	wr := p.Datagram(8)
	wr.SGList = []verbs.SGE{p.A.MR.SGE(200, 8)}
	if err := p.A.Post(wr); err != nil {
		t.Fatal(err)
	}
	wc, err := p.B.Done(2, verbs.WCRecv)
	if err != nil {
		t.Fatal(err)
	}
	ah, err := p.B.PD.CreateAHFromWC(&wc, p.B.Buf)
	if err != nil {
		t.Fatal(err)
	}
	// From 192.0.2.1 to 192.0.2.2, as it was on the wire.
	if ip := p.B.Buf[20:40]; ip[0] != 0x45 || ip[1] != 0 || ip[8] != 64 || ip[9] != 17 || ip[15] != 1 || ip[19] != 2 {
		t.Errorf("IPv4 header % x", ip)
	}
	copy(p.B.Buf[200:], "answer")
	err = p.B.Post(verbs.SendWR{
		WRID: 4, Opcode: verbs.OpSend, SGList: []verbs.SGE{p.B.MR.SGE(200, 6)},
		AH: ah, RemoteQPN: wc.SrcQP, RemoteQKey: p.A.QKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.A.Done(1, verbs.WCSend); err != nil {
		t.Fatal(err)
	}
	if wc, err = p.A.Done(3, verbs.WCRecv); err != nil || string(p.A.Buf[40:wc.ByteLen]) != "answer" {
		t.Errorf("answer %q, %v", p.A.Buf[40:46], err)
	}
	if _, err := p.B.Done(4, verbs.WCSend); err != nil {
		t.Error(err)
	}
	if err := ah.Destroy(); err != nil {
		t.Error(err)
	}
}

// TestPrivilegedQKey: a Q_Key with bit 31 is for those with the capability, and a
// work request that has it sends the queue pair's own.
func TestPrivilegedQKey(t *testing.T) {
	conformance.Rule(t, "8.2-4")
	const privileged, plain = 0x80000001, 0x7fffffff
	r := newRig(t, rigOptions{})
	p := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	set := func(key uint32) error {
		return p.B.QP.Modify(&verbs.QPAttr{State: verbs.QPStateRTS, QKey: key}, verbs.AttrState|verbs.AttrQKey)
	}
	r.b.root.privileged = func() bool { return false }
	if err := set(privileged); !errors.Is(err, ErrPermission) || !strings.Contains(err.Error(), "CAP_NET_RAW") {
		t.Errorf("without the capability: %v", err)
	}
	if err := set(plain); err != nil {
		t.Error(err)
	}
	r.b.root.privileged = func() bool { return true }
	if err := set(privileged); err != nil {
		t.Error(err)
	}
	wr := p.Datagram(1)
	wr.RemoteQKey = privileged // A's own key goes out, which is not B's
	if err := p.A.Post(wr); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "drop_qkey", func() bool { return counterOf(t, r.b, "drop_qkey") == 1 })
}

// TestUnreliableConnectionLoses: a message of which a packet is lost does not
// arrive, the next does, into the same receive.
func TestUnreliableConnectionLoses(t *testing.T) {
	drop := 2
	r := newRig(t, rigOptions{mtu: 1500, hook: func([]byte) xsktest.Action {
		if drop--; drop == 0 {
			return xsktest.Drop
		}
		return xsktest.Deliver
	}})
	p := verbstest.UCPair(t, r.ca, r.cb, verbstest.Options{})
	if err := p.B.Recv(2, 0, 5000); err != nil {
		t.Fatal(err)
	}
	for id, n := range []int{5000, 3000} {
		if err := p.A.Post(verbs.SendWR{WRID: uint64(id), Opcode: verbs.OpSend, SGList: []verbs.SGE{p.A.MR.SGE(0, n)}}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.A.Done(uint64(id), verbs.WCSend); err != nil {
			t.Fatal(err)
		}
	}
	if wc, err := p.B.Done(2, verbs.WCRecv); err != nil || wc.ByteLen != 3000 {
		t.Errorf("completion %+v, %v; want the second message", wc, err)
	}
	if n := counterOf(t, r.b, "abandoned_messages"); n != 1 {
		t.Errorf("%d abandoned messages", n)
	}
	r.checkMemory()
}

// TestUnconnectedTakesNoWindow: without acknowledgements nothing is in flight.
func TestUnconnectedTakesNoWindow(t *testing.T) {
	r := newRig(t, rigOptions{})
	verbstest.UCPair(t, r.ca, r.cb, verbstest.Options{})
	verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	if r.a.connected != 0 {
		t.Errorf("%d connections share the window", r.a.connected)
	}
}
