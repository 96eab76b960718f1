package proto

import (
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func TestAppendAndParse(t *testing.T) {
	in := RegMR{Addr: 1 << 40, Length: 4096, Offset: 64, Segment: 3, PD: 7, Access: 15, Memory: MemoryIndirect}
	b, err := Append([]byte("x"), Header{Op: OpRegMR, Seq: 9, FDs: 1}, &in)
	if err != nil {
		t.Fatal(err)
	}
	h, body, err := Parse(b[1:])
	if err != nil || h != (Header{Size: uint32(len(b) - 1), Op: OpRegMR, Seq: 9, FDs: 1}) {
		t.Fatal(h, err)
	}
	var out RegMR
	if err := Decode(body, &out); err != nil || out != in {
		t.Error(out, err)
	}
}

func TestNotMessages(t *testing.T) {
	good, err := Append(nil, Header{Op: OpAllocPD}, &Empty{})
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string][]byte{"none": nil, "short": good[:HeaderSize-1], "one byte more": append(good[:HeaderSize:HeaderSize], 0)} {
		if _, _, err := Parse(p); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var pd PD
	for _, n := range []int{0, 7, 9} {
		if err := Decode(make([]byte, n), &pd); !errors.Is(err, ErrMessage) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, err := Append(nil, Header{}, struct{ S string }{"no fixed size"}); !errors.Is(err, ErrMessage) {
		t.Error(err)
	}
	if _, err := Append(nil, Header{}, [MaxMessage]byte{}); !errors.Is(err, ErrMessage) {
		t.Error(err)
	}
}

func TestText(t *testing.T) {
	var b [8]byte
	for _, tc := range []struct{ in, want string }{{"", ""}, {"eth0", "eth0"}, {"1234567", "1234567"}, {"12345678", "1234567"}, {"123456\u00e9", "123456\uFFFD"}} {
		PutText(b[:], tc.in)
		if got := Text(b[:]); got != tc.want {
			t.Errorf("%q became %q", tc.in, got)
		}
	}
	PutText(b[:], "1234567")
	PutText(b[:], "a")
	if b != [8]byte{'a'} {
		t.Errorf("what was there before is left: %q", b)
	}
}

func TestAddresses(t *testing.T) {
	for _, s := range []string{"", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1", "::", "0.0.0.0"} {
		var a netip.Addr
		if s != "" {
			a = netip.MustParseAddr(s)
		}
		if got := AddrOf(a).Netip(); got != a {
			t.Errorf("%v became %v", a, got)
		}
		p := netip.AddrPortFrom(a, 4791)
		if got := AddrPortOf(p).Netip(); got != p {
			t.Errorf("%v became %v", p, got)
		}
	}
	for from, to := range map[string]string{
		"fe80::1%eth0": "fe80::1", "fe80::1%7": "fe80::1%7", "ff02::1%7": "ff02::1%7", "2001:db8::1%7": "2001:db8::1",
	} {
		a := netip.MustParseAddr(from)
		if got := AddrOf(a).Netip(); got != netip.MustParseAddr(to) {
			t.Errorf("%s became %s", from, got)
		}
		if got := AddrPortOf(netip.AddrPortFrom(a, 1)).Netip(); got != netip.AddrPortFrom(netip.MustParseAddr(to), 1) {
			t.Errorf("%s became %s", from, got)
		}
	}
	// What a client may send besides.
	if got := (Addr{Family: 4, IP: [16]byte{192, 0, 2, 1}, Scope: 7}).Netip(); got != netip.MustParseAddr("192.0.2.1") {
		t.Error(got)
	}
	if (Addr{Family: 5}).Netip().IsValid() {
		t.Error("family 5 is an address")
	}
}

func TestZoneName(t *testing.T) {
	long := strings.Repeat("x", Name)
	for _, tc := range []struct {
		name, iface, dst, src, want string
		fails                       bool
	}{
		{"none", "", "fe80::1", "fe80::2", "", false},
		{"an interface", "eth0", "fe80::1", "", "eth0", false},
		{"a zone", "", "fe80::1%eth0", "fe80::2", "eth0", false},
		{"the source's zone", "", "fe80::1", "fe80::2%eth0", "eth0", false},
		{"all the same", "eth0", "fe80::1%eth0", "fe80::2%eth0", "eth0", false},
		{"a number travels with its address", "", "fe80::1%7", "fe80::2%eth0", "eth0", false},
		{"a number that does not", "", "2001:db8::1%7", "", "7", false},
		{"two", "eth0", "fe80::1%eth1", "", "", true},
		{"too long", "", "fe80::1%" + long, "", "", true},
		{"just not", "", "fe80::1%" + long[1:], "", long[1:], false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dst, _ := netip.ParseAddr(tc.dst)
			src, _ := netip.ParseAddr(tc.src)
			got, err := ZoneName(tc.iface, dst, src)
			if got != tc.want || (err != nil) != tc.fails {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// fill gives each number in v another value, so that none can be forgotten.
func fill(v reflect.Value, n *int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		*n++
		v.SetInt(int64(*n))
	default:
		*n++
		v.SetUint(uint64(*n))
	}
}

func TestQPAttrComesBack(t *testing.T) {
	var a ibv.QPAttr
	n := 0
	fill(reflect.ValueOf(&a).Elem(), &n)
	w := QPAttrOf(&a)
	if diff := cmp.Diff(a, w.IBV()); diff != "" {
		t.Error(diff)
	}
	w.State = 256 + uint32(ibv.QPStateRTS)
	if got := w.IBV(); got.State != 255 {
		t.Errorf("state %d", got.State)
	}
	w.Cap.MaxSendWR = 1<<32 - 1
	if got := w.IBV(); got.Cap.MaxSendWR != 1<<31-1 {
		t.Errorf("MaxSendWR %d", got.Cap.MaxSendWR)
	}
}

func TestCMComesBack(t *testing.T) {
	at := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	p := cmfsm.ConnParam{PrivateData: []byte{1, 2}, ResponderResources: 3, InitiatorDepth: 4, FlowControl: true, RetryCount: 5, RNRRetryCount: 6, SRQ: true, QPN: 7, QKey: 8}
	e := cmfsm.Event{
		Type: cmfsm.EventConnectRequest, ID: 1, Listener: 2, Status: -3, Param: p, Local: at("10.0.0.1:1"), Remote: at("[fe80::1]:2"),
		AV: ibv.AddressVector{DGID: ibv.GID{9}, FlowLabel: 10, SGIDIndex: 11, HopLimit: 12, TrafficClass: 13, SL: 4, Port: 1},
	}
	ev, ok := CMEventOf(&e)
	if diff := cmp.Diff(e, ev.FSM(), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); !ok || diff != "" {
		t.Error(ok, diff)
	}
	r := cmfsm.Route{Local: at("10.0.0.1:1"), Remote: at("10.0.0.2:2"), MTU: 3, HopLimit: 4, SL: 5, FlowLabel: 6, PacketLife: 7, VLAN: 8}
	var c CMConnect
	c.SetRoute(&r)
	if c.Route() != r {
		t.Error(c.Route())
	}
	o := cmfsm.Options{ReuseAddr: true, AFOnly: true, TOS: 1, AckTimeout: 2, MinRNRTimer: 3}
	if w := OptionsOf(4, o); w.FSM() != o || w.ID != 4 {
		t.Error(w)
	}
	i := cmfsm.Info{State: 1, PortSpace: wire.PortSpaceTCP, Type: ibv.QPTypeUD, Local: at("10.0.0.1:1"), Remote: at("10.0.0.2:2"), QPN: 3, PeerQPN: 4}
	if w := InfoOf(&i); w.FSM() != i {
		t.Error(w.FSM())
	}
	p.PrivateData = make([]byte, MaxPrivate+1)
	if _, ok := CMParamOf(&p); ok {
		t.Error("too much private data went through")
	}
	long := CMParam{PrivateLen: 65535}
	if got := long.FSM(); len(got.PrivateData) != MaxPrivate {
		t.Errorf("%d bytes of private data", len(got.PrivateData))
	}
}

// FuzzParse: no packet does more than be refused.
func FuzzParse(f *testing.F) {
	for _, m := range Messages {
		b, err := Append(nil, Header{Op: m.Op}, m.Request)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, body, err := Parse(b)
		if err != nil {
			return
		}
		for _, m := range Messages {
			if m.Op != h.Op {
				continue
			}
			v := reflect.New(reflect.TypeOf(m.Request))
			if err := Decode(body, v.Interface()); err != nil {
				return
			}
			again, err := Append(nil, h, v.Interface())
			if err != nil || string(again) != string(b) {
				t.Fatalf("%v: %x became %x, %v", h.Op, b, again, err)
			}
		}
	})
}
