package datapath

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

var (
	group4 = gidOf(netip.MustParseAddr("239.1.2.3"))
	group6 = gidOf(netip.MustParseAddr("ff0e::1:2"))
)

// toGroup makes A's datagrams of p go to a group.
func toGroup(t *testing.T, p *verbstest.Pair, group ibv.GID, sgid int) *verbs.AH {
	t.Helper()
	ah, err := p.A.PD.CreateAH(&verbs.AddressVector{DGID: group, SGIDIndex: sgid})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ah.Destroy(); err != nil {
			t.Error(err)
		}
	})
	return ah
}

// cast sends the first n bytes of A's buffer to a group.
func cast(p *verbstest.Pair, ah *verbs.AH, n int, qkey uint32) error {
	wr := p.Datagram(n)
	wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, verbs.MulticastQPN, qkey
	if err := p.A.Post(wr); err != nil {
		return err
	}
	_, err := p.A.Done(1, verbs.WCSend)
	return err
}

// heard checks that e has received n bytes of a datagram from the queue pair src
// behind its first 40.
func heard(e *verbstest.End, at int, want []byte, src uint32) error {
	wc, err := e.Done(7, verbs.WCRecv)
	if err != nil {
		return err
	}
	if wc.SrcQP != src || int(wc.ByteLen) != verbs.GRHLen+len(want) || wc.Flags&verbs.WCGRH == 0 {
		return fmt.Errorf("completion %+v, want %d bytes from %#x", wc, len(want), src)
	}
	if got := e.Buf[at+verbs.GRHLen:][:len(want)]; !bytes.Equal(got, want) {
		return fmt.Errorf("payload of %d bytes is not that of the sender", len(want))
	}
	return nil
}

const recvAt = 100_000 // where the tests below receive to

// TestMulticast sends datagrams of all sizes to a group of queue pairs on both
// devices and all their workers, the sender among them: each gets its copy.
func TestMulticast(t *testing.T) {
	conformance.Rule(t, "8.4-4", "8.4-6")
	for _, tt := range []struct {
		name string
		rig  rigOptions
	}{
		{"one queue", rigOptions{}},
		{"three queues, crossed", rigOptions{queues: 3, crossed: true}},
		{"frames of 2048 bytes", rigOptions{queues: 2, opts: Options{FrameSize: 2048}}},
		{"MTU of Ethernet", rigOptions{mtu: 1500}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.rig)
			a6, b6 := netip.MustParseAddr("fd00::a"), netip.MustParseAddr("fd00::b")
			if err := errors.Join(r.a.setAddresses([]netip.Addr{addrA, a6}), r.b.setAddresses([]netip.Addr{addrB, b6})); err != nil {
				t.Fatal(err)
			}
			var pairs []*verbstest.Pair
			var ends []*verbstest.End
			for range 4 {
				p := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
				pairs, ends = append(pairs, p), append(ends, p.A, p.B)
			}
			for _, e := range ends {
				if err := errors.Join(e.QP.AttachMulticast(group4), e.QP.AttachMulticast(group6)); err != nil {
					t.Fatal(err)
				}
			}
			m := pairs[0].MTU.Bytes()
			for sgid, group := range []ibv.GID{group4, group6} {
				p := pairs[1]
				ah := toGroup(t, p, group, sgid)
				for _, n := range []int{0, 1, 3, 64, m - 1, m} {
					for i := range p.A.Buf[:n] {
						p.A.Buf[i] = byte(rand.Uint32())
					}
					for _, e := range ends {
						if err := e.Recv(7, recvAt, 5000); err != nil {
							t.Fatal(err)
						}
					}
					if err := cast(p, ah, n, p.A.QKey); err != nil {
						t.Fatal(err)
					}
					for i, e := range ends {
						if err := heard(e, recvAt, p.A.Buf[:n], p.A.QP.Num()); err != nil {
							t.Fatalf("%d bytes to %v, end %d: %v", n, group.Addr(), i, err)
						}
					}
				}
			}
			if n := counterOf(t, r.b, "multicast_pkts"); n != 12 {
				t.Errorf("%d multicast packets at B, want 12", n)
			}
			if n := counterOf(t, r.b, "multicast_copies"); n != 12*4 {
				t.Errorf("%d copies at B, want 48", n)
			}
			r.checkMemory()
		})
	}
}

// TestMulticastOnTheWire: link-layer address, source port and hop limit follow
// from the group and the sender; nobody is asked for an address.
func TestMulticastOnTheWire(t *testing.T) {
	conformance.Rule(t, "8.4-1", "8.4-2")
	var c captured
	r := newRig(t, rigOptions{hook: c.hook})
	p := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	asked := r.routes[0].asked
	ah := toGroup(t, p, group4, 0)
	if err := cast(p, ah, 10, p.A.QKey); err != nil {
		t.Fatal(err)
	}
	var pkt wire.Packet
	if frames := c.take(); len(frames) != 1 || pkt.Parse(frames[0]) != wire.Accept {
		t.Fatalf("%d frames", len(frames))
	}
	if pkt.DstMAC != ([6]byte{1, 0, 0x5e, 1, 2, 3}) || pkt.SrcMAC != macA || pkt.DstGID != group4 || pkt.TTL != 64 ||
		pkt.Hdr().DestQP() != 0xFFFFFF || pkt.UDPSrcPort != wire.PortFromQPN(p.A.QP.Num()) {
		t.Errorf("sent %+v", pkt)
	}
	if r.routes[0].asked != asked {
		t.Error("somebody was asked for the link-layer address of a group")
	}
	waitFor(t, "drop_unknown_group", func() bool { return counterOf(t, r.b, "drop_unknown_group") == 1 })
	if n := counterOf(t, r.a, "multicast_pkts"); n != 0 {
		t.Errorf("%d came back to a device without members", n)
	}
}

// TestMulticastQKey: of the members only those with the Q_Key of the datagram
// receive it, and the others are counted.
func TestMulticastQKey(t *testing.T) {
	conformance.Rule(t, "8.4-4")
	r := newRig(t, rigOptions{queues: 2})
	p := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{QKey: 0x10})
	other := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{QKey: 0x20})
	for _, e := range []*verbstest.End{p.B, other.B} {
		if err := errors.Join(e.QP.AttachMulticast(group4), e.Recv(7, recvAt, 200)); err != nil {
			t.Fatal(err)
		}
	}
	ah := toGroup(t, p, group4, 0)
	copy(p.A.Buf, "datagram")
	for i, to := range []*verbstest.End{p.B, other.B} {
		if err := cast(p, ah, 8, to.QKey); err != nil {
			t.Fatal(err)
		}
		if err := heard(to, recvAt, []byte("datagram"), p.A.QP.Num()); err != nil {
			t.Error(err)
		}
		waitFor(t, "drop_qkey", func() bool { return counterOf(t, r.b, "drop_qkey") == uint64(i+1) })
	}
}

// TestMulticastMembership: the first member of a device joins, the last leaves,
// and after DetachMulticast or Destroy nothing arrives.
func TestMulticastMembership(t *testing.T) {
	r := newRig(t, rigOptions{queues: 2})
	p := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	q := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	a := group4.Addr()
	member := func(want bool) {
		t.Helper()
		if joined, steered := r.joined[1].groups[a], r.steered[1].addrs[a]; joined != want || steered != want {
			t.Errorf("joined %v, steered %v; want %v", joined, steered, want)
		}
	}
	member(false)
	for range 2 { // twice is once
		if err := p.B.QP.AttachMulticast(group4); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.B.QP.AttachMulticast(group4); err != nil {
		t.Fatal(err)
	}
	member(true)
	if err := errors.Join(p.B.Recv(7, recvAt, 200), q.B.Recv(7, recvAt, 200)); err != nil {
		t.Fatal(err)
	}
	if err := p.B.QP.DetachMulticast(group4); err != nil {
		t.Fatal(err)
	}
	member(true)
	ah := toGroup(t, p, group4, 0)
	if err := cast(p, ah, 5, p.A.QKey); err != nil {
		t.Fatal(err)
	}
	if err := heard(q.B, recvAt, p.A.Buf[:5], p.A.QP.Num()); err != nil {
		t.Fatal(err)
	}
	if err := p.B.QP.DetachMulticast(group4); !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), "not attached to 239.1.2.3") {
		t.Errorf("detached twice: %v", err)
	}
	if err := q.B.QP.Destroy(); err != nil {
		t.Fatal(err)
	}
	member(false)
	if err := cast(p, ah, 5, p.A.QKey); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "drop_unknown_group", func() bool { return counterOf(t, r.b, "drop_unknown_group") == 1 })
	var wcs [4]verbs.WC
	if n := p.B.CQ.Poll(wcs[:]); n != 0 {
		t.Errorf("%d completions of a queue pair that was detached", n)
	}
	if err := q.B.QP.AttachMulticast(group4); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("attach of a destroyed one: %v", err)
	}
}

func TestMulticastRefuses(t *testing.T) {
	r := newRig(t, rigOptions{})
	ud := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	rc := verbstest.RCPair(t, r.ca, r.cb, verbstest.Options{})
	for _, tt := range []struct {
		name  string
		qp    *verbs.QP
		group string
		says  string
	}{
		{"a connection", rc.A.QP, "239.1.2.3", "multicast is of datagrams"},
		{"one host", ud.A.QP, "192.0.2.9", "192.0.2.9 is not the address of a multicast group"},
		{"nothing", ud.A.QP, "::", "not the address of a multicast group"},
		{"within the host", ud.A.QP, "ff01::1", "never leave a host"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := gidOf(netip.MustParseAddr(tt.group))
			if err := tt.qp.AttachMulticast(g); !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("attach: %v, want %q", err, tt.says)
			}
			if err := tt.qp.DetachMulticast(g); !errors.Is(err, verbs.ErrInvalid) {
				t.Errorf("detach: %v", err)
			}
		})
	}
	fail := errors.New("no memory")
	r.joined[0].err = fail
	if err := ud.A.QP.AttachMulticast(group4); !errors.Is(err, fail) {
		t.Errorf("when joining fails: %v", err)
	}
	r.joined[0].err, r.steered[0].err = nil, fail
	if err := ud.A.QP.AttachMulticast(group4); !errors.Is(err, fail) || r.joined[0].groups[group4.Addr()] {
		t.Errorf("when steering fails: %v, still joined %v", err, r.joined[0].groups)
	}
	r.steered[0].err = nil
	ah := toGroup(t, ud, group4, 0)
	wr := ud.Datagram(1)
	wr.AH = ah
	if err := ud.A.Post(wr); !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), "MulticastQPN") {
		t.Errorf("a queue pair's number to a group: %v", err)
	}
}

func TestMulticastLimits(t *testing.T) {
	r := newRig(t, rigOptions{queues: 2})
	init := initOf(t, r.a)
	init.Type = ibv.QPTypeUD
	var last verbs.ProviderQP
	for range maxGroupMembers {
		q, err := r.a.CreateQP(init)
		if err == nil {
			err = q.AttachMulticast(group4)
		}
		if err != nil {
			t.Fatal(err)
		}
		last = q
	}
	q, err := r.a.CreateQP(init)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.AttachMulticast(group4); !errors.Is(err, ErrLimit) {
		t.Errorf("one more than a group has: %v", err)
	}
	if err := errors.Join(last.Destroy(), q.AttachMulticast(group4)); err != nil {
		t.Errorf("after one has gone: %v", err)
	}
	full := func(n int) {
		r.a.groups.changing.Lock()
		r.a.groups.n += n
		r.a.groups.changing.Unlock()
	}
	full(maxGroups - 1)
	if err := q.AttachMulticast(gidOf(netip.MustParseAddr("239.7.7.7"))); !errors.Is(err, ErrLimit) {
		t.Errorf("one more group than a device has: %v", err)
	}
	full(1 - maxGroups)
	attr, err := r.a.QueryDevice()
	if err != nil || attr.MaxMcastGrp != maxGroups || attr.MaxMcastQP != maxGroupMembers || attr.MaxMcastTotal != maxGroups*maxGroupMembers {
		t.Errorf("limits told: %+v, %v", attr, err)
	}
}

// TestMulticastDoesNotAllocate: copies to queue pairs on several workers take no
// memory of the heap.
func TestMulticastDoesNotAllocate(t *testing.T) {
	r := newRig(t, rigOptions{queues: 2, opts: Options{NoBackground: true}})
	p := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	q := verbstest.UDPair(t, r.ca, r.cb, verbstest.Options{})
	members := []*verbstest.End{p.A, p.B, q.A, q.B}
	for _, e := range members {
		if err := e.QP.AttachMulticast(group4); err != nil {
			t.Fatal(err)
		}
	}
	wr := p.Datagram(4096)
	wr.AH, wr.RemoteQPN, wr.Flags = toGroup(t, p, group4, 0), verbs.MulticastQPN, verbs.SendSignaled
	recvs := make([]verbs.RecvWR, len(members))
	for i, e := range members {
		recvs[i] = verbs.RecvWR{SGList: []verbs.SGE{e.MR.SGE(recvAt, 5000)}}
	}
	var wcs [4]verbs.WC
	round := func() {
		for i, e := range members {
			if err := e.QP.PostRecv(&recvs[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.A.QP.PostSend(&wr); err != nil {
			t.Fatal(err)
		}
		left := len(members) + 1
		for range 100_000 {
			for _, e := range members {
				left -= e.CQ.Poll(wcs[:])
			}
			if left == 0 {
				return
			}
			r.ca.Progress()
			r.cb.Progress()
		}
		t.Fatalf("%d completions are missing", left)
	}
	for range 10 {
		round()
	}
	if raceEnabled {
		return
	}
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestMulticastManyGroups: a queue pair that is in many groups goes while another comes
// and goes in some of them; what is left is the other's alone.
func TestMulticastManyGroups(t *testing.T) {
	r := newRig(t, rigOptions{queues: 2})
	init := initOf(t, r.a)
	init.Type = ibv.QPTypeUD
	many, err := r.a.CreateQP(init)
	must(t, err)
	other, err := r.a.CreateQP(init)
	must(t, err)
	const n = 500
	gid := func(i int) ibv.GID { return ibv.GID{0: 0xff, 1: 0x0e, 14: byte(i >> 8), 15: byte(i)} }
	for i := range n {
		must(t, many.AttachMulticast(gid(i)))
	}
	var destroying sync.WaitGroup
	destroying.Go(func() {
		if err := many.Destroy(); err != nil {
			t.Error(err)
		}
	})
	for i := range n {
		must(t, other.AttachMulticast(gid(i)))
		if i%3 != 0 {
			must(t, other.DetachMulticast(gid(i)))
		}
	}
	destroying.Wait()
	const left = (n + 2) / 3
	if g := &r.a.groups; g.n != left || len(g.of(other.(*qp))) != left || len(g.of(many.(*qp))) != 0 {
		t.Errorf("%d groups, %d of the one and %d of the other, want %d, 0, %d", g.n, len(g.of(many.(*qp))), len(g.of(other.(*qp))), left, left)
	}
	for i := range n {
		if have := r.a.groups.get(gid(i)); (have != nil) != (i%3 == 0) || have != nil && (have.n != 1 || !have.has(other.(*qp))) {
			t.Errorf("group %d: %+v", i, have)
		}
	}
	must(t, other.Destroy())
	if g, u := r.a.groups.n, r.a.root.Usage().Groups; g != 0 || u != 0 || len(r.joined[0].groups) != 0 {
		t.Errorf("%d groups, %d attachments and %d of the host's are left", g, u, len(r.joined[0].groups))
	}
}
