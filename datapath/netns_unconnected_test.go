package datapath_test

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestNetnsUnconnected moves messages of UC and datagrams of UD both ways at sizes
// around the edges of packets, over a link that loses nothing.
func TestNetnsUnconnected(t *testing.T) {
	for _, tt := range []struct {
		name string
		pair netns.PairOptions
		opts *datapath.Options
	}{
		{"IPv4", netns.PairOptions{MTU: 1500, NoIPv6: true}, nil},
		{"IPv6", netns.PairOptions{MTU: 1500, NoIPv4: true}, nil},
		{"IPv6, 9000 bytes", netns.PairOptions{MTU: 9000, NoIPv4: true}, nil},
		{"9000 bytes", netns.PairOptions{MTU: 9000}, nil},
		{"four queues", netns.PairOptions{MTU: 1500, Queues: 4}, nil},
		{"generic XDP", netns.PairOptions{MTU: 9000}, &datapath.Options{Mode: bpf.ModeGeneric}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hosts := netns.PairForTest(t, tt.pair)
			a, b := openIn(t, hosts.A, tt.opts), openIn(t, hosts.B, tt.opts)
			uc := verbstest.UCPair(t, a, b, verbstest.Options{})
			ud := verbstest.UDPair(t, a, b, verbstest.Options{})
			m := uc.MTU.Bytes()
			for _, p := range []*verbstest.Pair{uc, uc.Reverse()} {
				if err := p.Every(0, 1, 3, 64, m-1, m, m+1, 2*m, 3*m+1); err != nil {
					t.Errorf("UC: %v", err)
				}
			}
			for _, p := range []*verbstest.Pair{ud, ud.Reverse()} {
				if err := p.Every(0, 1, 2, 3, 64, m-1, m); err != nil {
					t.Errorf("UD: %v", err)
				}
			}
			report(t, a)
		})
	}
}

// TestNetnsWrongQKey: a datagram with a wrong Q_Key is counted and not received.
func TestNetnsWrongQKey(t *testing.T) {
	hosts := netns.PairForTest(t, netns.PairOptions{})
	a, b := openIn(t, hosts.A, nil), openIn(t, hosts.B, nil)
	p := verbstest.UDPair(t, a, b, verbstest.Options{QKey: 0x1234})
	right := p.B.QKey
	if err := p.B.Recv(2, 0, 100); err != nil {
		t.Fatal(err)
	}
	p.B.QKey++
	wr := p.Datagram(10)
	if err := p.A.Post(wr); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the drop", func() bool { return counterOf(t, b, "drop_qkey") == 1 })
	p.B.QKey = right
	if err := p.A.Post(p.Datagram(20)); err != nil {
		t.Fatal(err)
	}
	if wc, err := p.B.Next(); err != nil || wc.ByteLen != 60 {
		t.Errorf("completion %+v, %v; want the second datagram", wc, err)
	}
}
