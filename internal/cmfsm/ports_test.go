package cmfsm

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func testMachine() *Machine { return New(Config{GUID: 1, Rand: rand.NewPCG(1, 2)}) }

// bound makes an id with options and binds it.
func bound(t *testing.T, m *Machine, addr string, o Options) (ID, error) {
	t.Helper()
	id, err := m.Create(1, wire.PortSpaceTCP, ibv.QPTypeRC)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.SetOptions(id, o); err != nil {
		t.Fatal(err)
	}
	_, err = m.Bind(id, netip.MustParseAddrPort(addr))
	return id, err
}

func TestBindConflicts(t *testing.T) {
	reuse, only := Options{ReuseAddr: true}, Options{AFOnly: true}
	for _, c := range []struct {
		name          string
		first, second string
		o1, o2        Options
		listening     bool // the first one
		want          error
	}{
		{"same address", "10.0.0.1:7", "10.0.0.1:7", Options{}, Options{}, false, ErrAddrInUse},
		{"other port", "10.0.0.1:7", "10.0.0.1:8", Options{}, Options{}, false, nil},
		{"other address", "10.0.0.1:7", "10.0.0.2:7", Options{}, Options{}, true, nil},
		{"any after one", "10.0.0.1:7", "0.0.0.0:7", Options{}, Options{}, false, ErrAddrInUse},
		{"one after any", "0.0.0.0:7", "10.0.0.1:7", Options{}, Options{}, false, ErrAddrInUse},
		{"mapped is the same", "10.0.0.1:7", "[::ffff:10.0.0.1]:7", Options{}, Options{}, false, ErrAddrInUse},
		{"both reuse", "10.0.0.1:7", "10.0.0.1:7", reuse, reuse, false, nil},
		{"only the second reuses", "10.0.0.1:7", "10.0.0.1:7", Options{}, reuse, false, ErrAddrInUse},
		{"only the first reuses", "10.0.0.1:7", "10.0.0.1:7", reuse, Options{}, false, ErrAddrInUse},
		{"both reuse, one listens", "10.0.0.1:7", "10.0.0.1:7", reuse, reuse, true, ErrAddrInUse},
		{"any of IPv6 has IPv4", "[::]:7", "10.0.0.1:7", Options{}, Options{}, false, ErrAddrInUse},
		{"any of IPv6 has any of IPv4", "0.0.0.0:7", "[::]:7", Options{}, Options{}, false, ErrAddrInUse},
		{"any of IPv6 only", "[::]:7", "10.0.0.1:7", only, Options{}, true, nil},
		{"any of IPv6 only, second", "0.0.0.0:7", "[::]:7", Options{}, only, true, nil},
		{"any of IPv4 has no IPv6", "0.0.0.0:7", "[fd00::1]:7", Options{}, Options{}, true, nil},
	} {
		m := testMachine()
		first, err := bound(t, m, c.first, c.o1)
		wantErr(t, c.name+", first", err, nil)
		if c.listening {
			wantErr(t, c.name+", listen", m.Listen(first, 0), nil)
		}
		_, err = bound(t, m, c.second, c.o2)
		wantErr(t, c.name, err, c.want)
		// What is destroyed is free again.
		wantErr(t, c.name, m.Destroy(1, first), nil)
		_, err = bound(t, m, c.first, Options{})
		if c.want != nil {
			wantErr(t, c.name+", after Destroy", err, nil)
		}
	}
}

// Ids that share an address do so until one listens.
func TestListenEndsSharing(t *testing.T) {
	m := testMachine()
	o := Options{ReuseAddr: true}
	first, _ := bound(t, m, "10.0.0.1:7", o)
	second, err := bound(t, m, "10.0.0.1:7", o)
	wantErr(t, "share", err, nil)
	wantErr(t, "listen while shared", m.Listen(first, 1), ErrAddrInUse)
	wantErr(t, "destroy", m.Destroy(1, second), nil)
	wantErr(t, "listen alone", m.Listen(first, 1), nil)
	wantErr(t, "listen twice", m.Listen(first, 1), ErrState)
}

func TestBindRefuses(t *testing.T) {
	m := testMachine()
	id, err := bound(t, m, "10.0.0.1:7", Options{})
	wantErr(t, "bind", err, nil)
	_, err = m.Bind(id, netip.MustParseAddrPort("10.0.0.1:8"))
	wantErr(t, "bind twice", err, ErrState)
	_, err = bound(t, m, "239.0.0.1:7", Options{})
	wantErr(t, "multicast", err, ErrInvalid)
	_, err = m.Bind(99, netip.MustParseAddrPort("10.0.0.1:8"))
	wantErr(t, "no such id", err, ErrUnknownID)
	id, _ = m.Create(1, wire.PortSpaceTCP, ibv.QPTypeRC)
	_, err = m.Bind(id, netip.AddrPort{})
	wantErr(t, "no address", err, ErrInvalid)
	wantErr(t, "listen unbound", m.Listen(id, 1), ErrState)
	wantErr(t, "options within range", m.SetOptions(id, Options{AckTimeout: 31, MinRNRTimer: 31}), nil)
	wantErr(t, "options of nobody", m.SetOptions(99, Options{}), ErrUnknownID)
	wantErr(t, "options out of range", m.SetOptions(id, Options{MinRNRTimer: 32}), ErrInvalid)
	wantErr(t, "options out of range", m.SetOptions(id, Options{AckTimeout: 32}), ErrInvalid)
	for _, c := range []struct {
		ps  wire.PortSpace
		typ ibv.QPType
	}{{wire.PortSpaceTCP, ibv.QPTypeUD}, {wire.PortSpaceUDP, ibv.QPTypeRC}, {wire.PortSpaceIB, ibv.QPTypeGSI}, {7, ibv.QPTypeRC}} {
		_, err := m.Create(1, c.ps, c.typ)
		wantErr(t, c.ps.String(), err, ErrInvalid)
	}
}

func TestListenerChoice(t *testing.T) {
	for _, c := range []struct {
		name   string
		listen []string
		only   bool
		dst    string
		want   int // index, -1 for none
	}{
		{"exact before any", []string{"10.0.0.1:7", "[fd00::1]:7"}, false, "10.0.0.1", 0},
		{"any", []string{"0.0.0.0:7"}, false, "10.0.0.1", 0},
		{"other address", []string{"10.0.0.2:7"}, false, "10.0.0.1", -1},
		{"other port", []string{"10.0.0.1:8"}, false, "10.0.0.1", -1},
		{"IPv6 any takes IPv4", []string{"[::]:7"}, false, "10.0.0.1", 0},
		{"IPv6 any takes IPv6", []string{"[::]:7"}, false, "fd00::2", 0},
		{"IPv6 only does not take IPv4", []string{"[::]:7"}, true, "10.0.0.1", -1},
		{"IPv4 any does not take IPv6", []string{"0.0.0.0:7"}, false, "fd00::1", -1},
		{"own family first", []string{"[::]:7", "0.0.0.0:7"}, true, "10.0.0.1", 1},
	} {
		m := testMachine()
		var ids []ID
		for _, a := range c.listen {
			id, err := bound(t, m, a, Options{AFOnly: c.only})
			wantErr(t, c.name, err, nil)
			wantErr(t, c.name, m.Listen(id, 1), nil)
			ids = append(ids, id)
		}
		got := m.listenerFor(wire.ServiceIDOf(wire.PortSpaceTCP, 7), netip.MustParseAddr(c.dst))
		switch {
		case c.want < 0 && got != nil:
			t.Errorf("%s: id %d listens", c.name, got.id)
		case c.want >= 0 && (got == nil || got.id != ids[c.want]):
			t.Errorf("%s: %+v, want the listener number %d", c.name, got, c.want)
		}
	}
}

// Ephemeral ports are each used once, then shared by connections only, and they
// are not the same in every run.
func TestEphemeralPorts(t *testing.T) {
	m := New(Config{GUID: 1, Rand: rand.NewPCG(1, 2), FirstPort: 100, LastPort: 109})
	dst := netip.MustParseAddrPort("10.0.0.2:7")
	connect := func() (uint16, error) {
		id, err := m.Create(1, wire.PortSpaceTCP, ibv.QPTypeRC)
		wantErr(t, "create", err, nil)
		err = m.Connect(1, id, &Route{Local: netip.MustParseAddrPort("10.0.0.1:0"), Remote: dst, MTU: ibv.MTU1024}, &ConnParam{QPN: 9})
		info, _ := m.Info(id)
		return info.Local.Port(), err
	}
	seen := map[uint16]int{}
	for range 10 {
		p, err := connect()
		wantErr(t, "connect", err, nil)
		seen[p]++
	}
	if len(seen) != 10 || seen[100] != 1 || seen[109] != 1 {
		t.Errorf("ten connections have the ports %v", seen)
	}
	p, err := connect()
	if err != nil || seen[p] != 1 {
		t.Errorf("the eleventh has port %d, %v", p, err)
	}
	_, err = bound(t, m, "10.0.0.1:100", Options{})
	wantErr(t, "explicit bind to a taken port", err, ErrAddrInUse)

	first := map[uint16]bool{}
	for seed := range uint64(8) {
		m := New(Config{Rand: rand.NewPCG(seed, 0)})
		id, _ := m.Create(1, wire.PortSpaceTCP, ibv.QPTypeRC)
		a, err := m.Bind(id, netip.MustParseAddrPort("10.0.0.1:0"))
		if err != nil || a.Port() < 32768 || a.Port() > 60999 {
			t.Errorf("bound to %v, %v", a, err)
		}
		first[a.Port()] = true
	}
	if len(first) < 7 {
		t.Errorf("eight machines begin with the ports %v", first)
	}
}

func TestNoPortsLeft(t *testing.T) {
	m := New(Config{Rand: rand.NewPCG(1, 2), FirstPort: 100, LastPort: 101})
	for range 2 {
		id, _ := m.Create(1, wire.PortSpaceTCP, ibv.QPTypeRC)
		_, err := m.Bind(id, netip.MustParseAddrPort("10.0.0.1:0"))
		wantErr(t, "bind", err, nil)
		wantErr(t, "listen", m.Listen(id, 1), nil)
	}
	_, err := bound(t, m, "10.0.0.1:0", Options{})
	wantErr(t, "third of two", err, ErrNoPorts)
	// Port spaces are apart.
	id, _ := m.Create(1, wire.PortSpaceUDP, ibv.QPTypeUD)
	_, err = m.Bind(id, netip.MustParseAddrPort("10.0.0.1:0"))
	wantErr(t, "UDP", err, nil)
}

func TestConnectRefuses(t *testing.T) {
	good := Route{Local: netip.MustParseAddrPort("10.0.0.1:0"), Remote: netip.MustParseAddrPort("10.0.0.2:7"), MTU: ibv.MTU1024}
	param := ConnParam{QPN: 9}
	for _, c := range []struct {
		name   string
		change func(r *Route, p *ConnParam)
		want   error
	}{
		{"good", func(*Route, *ConnParam) {}, nil},
		{"mixed families", func(r *Route, _ *ConnParam) { r.Remote = netip.MustParseAddrPort("[fd00::1]:7") }, ErrInvalid},
		{"to all", func(r *Route, _ *ConnParam) { r.Remote = netip.MustParseAddrPort("0.0.0.0:7") }, ErrInvalid},
		{"to multicast", func(r *Route, _ *ConnParam) { r.Remote = netip.MustParseAddrPort("239.0.0.1:7") }, ErrInvalid},
		{"to broadcast", func(r *Route, _ *ConnParam) { r.Remote = netip.MustParseAddrPort("255.255.255.255:7") }, ErrInvalid},
		{"from all", func(r *Route, _ *ConnParam) { r.Local = netip.MustParseAddrPort("0.0.0.0:0") }, ErrInvalid},
		{"to port 0", func(r *Route, _ *ConnParam) { r.Remote = netip.MustParseAddrPort("10.0.0.2:0") }, ErrInvalid},
		{"no MTU", func(r *Route, _ *ConnParam) { r.MTU = 0 }, ErrInvalid},
		{"SL 8", func(r *Route, _ *ConnParam) { r.SL = 8 }, ErrInvalid},
		{"packets live for ever", func(r *Route, _ *ConnParam) { r.PacketLife = 31 }, ErrInvalid},
		{"packets live long", func(r *Route, _ *ConnParam) { r.PacketLife, r.SL = 30, 7 }, nil},
		{"no queue pair", func(_ *Route, p *ConnParam) { p.QPN = 0 }, ErrInvalid},
		{"more resources than the device", func(_ *Route, p *ConnParam) { p.ResponderResources = 129 }, ErrInvalid},
		{"as many resources as the device", func(_ *Route, p *ConnParam) { p.ResponderResources, p.InitiatorDepth = 128, 128 }, nil},
		{"deeper than the device", func(_ *Route, p *ConnParam) { p.InitiatorDepth = 129 }, ErrInvalid},
		{"all resources", func(_ *Route, p *ConnParam) { p.ResponderResources, p.InitiatorDepth = MaxResources, MaxResources }, nil},
		{"57 bytes of private data", func(_ *Route, p *ConnParam) { p.PrivateData = make([]byte, 57) }, ErrPrivateData},
		{"56 bytes of private data", func(_ *Route, p *ConnParam) { p.PrivateData = make([]byte, 56) }, nil},
	} {
		m := testMachine()
		id, err := m.Create(1, wire.PortSpaceTCP, ibv.QPTypeRC)
		wantErr(t, c.name, err, nil)
		r, p := good, param
		c.change(&r, &p)
		wantErr(t, c.name, m.Connect(1, id, &r, &p), c.want)
		if c.want == nil {
			wantErr(t, c.name+", again", m.Connect(1, id, &r, &p), ErrState)
		} else if _, ok := m.NextMAD(); ok || m.NextDeadline() < 1<<62 {
			t.Errorf("%s: a refused call did something", c.name)
		}
	}

	m := testMachine()
	id, _ := bound(t, m, "10.0.0.3:50", Options{})
	wantErr(t, "bound elsewhere", m.Connect(1, id, &good, &param), ErrInvalid)
	id, _ = bound(t, m, "0.0.0.0:51", Options{})
	r := good
	r.Local = netip.MustParseAddrPort("10.0.0.1:52")
	wantErr(t, "bound to another port", m.Connect(1, id, &r, &param), ErrInvalid)
	wantErr(t, "bound to all", m.Connect(1, id, &good, &param), nil)
	if info, err := m.Info(id); err != nil || info.Local.String() != "10.0.0.1:51" || info.State != StateREQSent {
		t.Errorf("%+v, %v", info, err)
	}
}

// The machine is full with what waits in it, too, and has room when that is over.
func TestTooManyIDs(t *testing.T) {
	w := newWorld(t, 1)
	w.b = newHost(t, "b", "10.0.0.2", 1, Config{MaxIDs: 2})
	w.a.app, w.b.app = w.polite, w.polite
	w.listen(wire.PortSpaceTCP, 5)
	w.connect(wire.PortSpaceTCP)
	w.run(time.Second)
	p := activeParam
	p.QPN = 0x12
	id := w.create(w.a, wire.PortSpaceTCP)
	w.check(w.a.Connect(w.now, id, w.route(), &p))
	w.run(time.Second)
	if e, ok := w.a.last(EventRejected); !ok || e.Status != int(wire.RejNoResources) {
		w.fatal("the second of one: %v %d", ok, e.Status)
	}
	if n := w.b.Counters()[CounterBacklogFull]; n != 1 {
		w.fatal("%d over the limit", n)
	}
	_, err := w.b.Create(1, wire.PortSpaceTCP, ibv.QPTypeRC)
	wantErr(t, "create", err, ErrTooManyIDs)
	req, _ := w.b.last(EventConnectRequest)
	w.check(w.b.Destroy(w.now, req.ID))
	_, err = w.b.Create(1, wire.PortSpaceTCP, ibv.QPTypeRC)
	wantErr(t, "while the old one disconnects", err, ErrTooManyIDs)
	w.run(time.Second)
	_, err = w.b.Create(1, wire.PortSpaceTCP, ibv.QPTypeRC)
	wantErr(t, "afterwards", err, nil)
}

// An owner has its share, and leaves others theirs.
func TestTooManyIDsOfAnOwner(t *testing.T) {
	m := New(Config{Rand: rand.NewPCG(1, 2), MaxIDs: 3, MaxOwnerIDs: 2})
	create := func(o Owner) (ID, error) { return m.Create(o, wire.PortSpaceTCP, ibv.QPTypeRC) }
	first, err := create(1)
	wantErr(t, "first", err, nil)
	_, err = create(1)
	wantErr(t, "second", err, nil)
	_, err = create(1)
	wantErr(t, "third", err, ErrTooManyIDs)
	_, err = create(2)
	wantErr(t, "of another owner", err, nil)
	_, err = create(2)
	wantErr(t, "of a full machine", err, ErrTooManyIDs)
	wantErr(t, "destroy", m.Destroy(1, first), nil)
	wantErr(t, "destroy twice", m.Destroy(1, first), ErrUnknownID)
	_, err = create(1)
	wantErr(t, "after Destroy", err, nil)
}
