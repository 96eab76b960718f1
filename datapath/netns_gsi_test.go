package datapath_test

import (
	"errors"
	"testing"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

// TestNetnsGSI exchanges management datagrams between two hosts by all addresses
// that they have, each answered by what was received.
func TestNetnsGSI(t *testing.T) {
	const mad = 256
	hosts := netns.PairForTest(t, netns.PairOptions{Queues: 2})
	a, b := openIn(t, hosts.A, nil), openIn(t, hosts.B, nil)
	p := verbstest.GSIPair(t, a, b, verbstest.Options{})
	if err := errors.Join(p.Every(mad), p.Reverse().Every(mad)); err != nil {
		t.Fatal(err)
	}
	from, err := a.GIDs()
	if err != nil {
		t.Fatal(err)
	}
	to, err := b.GIDs()
	if err != nil {
		t.Fatal(err)
	}
	if len(from) != 3 || len(to) != 3 { // link-local, IPv4, IPv6
		t.Fatalf("GIDs %v and %v", from, to)
	}
	for i := range from {
		if err := errors.Join(p.A.Recv(3, 0, 512), p.B.Recv(2, 0, 512)); err != nil {
			t.Fatal(err)
		}
		ah, err := p.A.PD.CreateAH(&verbs.AddressVector{DGID: to[i].GID, SGIDIndex: from[i].Index})
		if err != nil {
			t.Fatalf("%v to %v: %v", from[i].GID, to[i].GID, err)
		}
		wr := p.Datagram(mad)
		wr.AH = ah
		if err := p.A.Post(wr); err != nil {
			t.Fatal(err)
		}
		if _, err := p.A.Done(1, verbs.WCSend); err != nil {
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
		if av := back.Attr(); av.DGID != from[i].GID || av.SGIDIndex != to[i].Index {
			t.Errorf("the answer would go from %d to %v", av.SGIDIndex, av.DGID)
		}
		answer := p.Reverse().Datagram(mad)
		answer.AH, answer.RemoteQPN = back, wc.SrcQP
		if err := p.B.Post(answer); err != nil {
			t.Fatal(err)
		}
		if _, err := p.B.Done(1, verbs.WCSend); err != nil {
			t.Fatal(err)
		}
		if wc, err := p.A.Done(3, verbs.WCRecv); err != nil || wc.SrcQP != verbs.GSIQPN || wc.ByteLen != verbs.GRHLen+mad {
			t.Errorf("answer %+v, %v", wc, err)
		}
		if err := errors.Join(ah.Destroy(), back.Destroy()); err != nil {
			t.Error(err)
		}
	}
}
