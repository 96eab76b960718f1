package cmengine_test

import (
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/internal/cmengine"
	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
	"github.com/roce-xdp/roce-xdp/verbs/verbstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, dev *verbs.Context) cmengine.Client {
	t.Helper()
	return openTo(t, dev, func(cmfsm.Event) {})
}

// openTo has events go to a sink.
func openTo(t *testing.T, dev *verbs.Context, sink func(cmfsm.Event)) cmengine.Client {
	t.Helper()
	c, err := cmengine.Of(dev).Open(sink)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), c.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func count(t *testing.T, c cmengine.Client, name string) uint64 {
	t.Helper()
	all, err := c.Counters()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		if v.Name == name {
			return v.Value
		}
	}
	t.Fatalf("no counter %s in %v", name, all)
	return 0
}

// TestGarbage: what is no MAD, too long for one, or not from a queue pair 1, is counted
// and harms nothing.
func TestGarbage(t *testing.T) {
	a, b := datapathtest.Pair(t, datapathtest.Options{})
	c := open(t, b)
	pd, err := a.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := a.CreateCQ(16)
	if err != nil {
		t.Fatal(err)
	}
	mr, err := pd.RegisterMemory(make([]byte, 4096), 0)
	if err != nil {
		t.Fatal(err)
	}
	ah, err := pd.CreateAH(&verbs.AddressVector{DGID: ibv.GIDOf(datapathtest.IPv4[1])})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		typ     verbs.QPType
		n       int
		counter string
	}{
		{"nothing", verbs.GSI, 0, "cm_bad_length"},
		{"zeros", verbs.GSI, 256, "cm_bad_header"},
		{"a byte short", verbs.GSI, 255, "cm_bad_length"},
		{"a byte long", verbs.GSI, 257, "cm_bad_length"},
		{"as long as a datagram can be", verbs.GSI, 4096, "cm_bad_length"},
		{"from another queue pair", verbs.UD, 256, "cm_rx_not_gsi"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q, err := pd.CreateQP(&verbs.QPInitAttr{Type: tt.typ, SendCQ: cq, RecvCQ: cq})
			if err != nil {
				t.Fatal(err)
			}
			ready(t, q)
			before := count(t, c, tt.counter)
			err = q.PostSend(&verbs.SendWR{
				Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mr.SGE(0, tt.n)},
				AH: ah, RemoteQPN: verbs.GSIQPN, RemoteQKey: verbs.GSIQKey,
			})
			if err != nil {
				t.Fatal(err)
			}
			waitFor(t, func() bool { return count(t, c, tt.counter) == before+1 })
			if err := q.Destroy(); err != nil {
				t.Error(err)
			}
		})
	}
}

// ready takes a queue pair of datagrams to RTS.
func ready(t *testing.T, q *verbs.QP) {
	t.Helper()
	mask := verbs.AttrState | verbs.AttrPKeyIndex | verbs.AttrQKey
	if q.Type() == verbs.UD {
		mask |= verbs.AttrPort
	}
	err := errors.Join(
		q.Modify(&verbs.QPAttr{State: verbs.QPStateInit, Port: 1, QKey: verbs.GSIQKey}, mask),
		q.Modify(&verbs.QPAttr{State: verbs.QPStateRTR}, verbs.AttrState),
		q.Modify(&verbs.QPAttr{State: verbs.QPStateRTS}, verbs.AttrState|verbs.AttrSQPSN))
	if err != nil {
		t.Fatal(err)
	}
}

func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited 30 s")
		}
	}
}

// TestOwners: a client cannot touch the ids of another, and they end with it.
func TestOwners(t *testing.T) {
	a, _ := datapathtest.Pair(t, datapathtest.Options{})
	one, two := open(t, a), open(t, a)
	id, err := one.Create(wire.PortSpaceTCP, verbs.RC)
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.AddrPortFrom(datapathtest.IPv4[0], 7471)
	if _, err := one.Bind(id, addr); err != nil {
		t.Fatal(err)
	}
	if _, err := two.Info(id); !errors.Is(err, cmfsm.ErrUnknownID) {
		t.Errorf("another's id: %v", err)
	}
	if err := two.Destroy(id); !errors.Is(err, cmfsm.ErrUnknownID) {
		t.Errorf("destroying another's id: %v", err)
	}
	other, err := two.Create(wire.PortSpaceTCP, verbs.RC)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := two.Bind(other, addr); !errors.Is(err, cmfsm.ErrAddrInUse) {
		t.Errorf("another's address: %v", err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Create(wire.PortSpaceTCP, verbs.RC); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("a closed client: %v", err)
	}
	if _, err := two.Bind(other, addr); err != nil {
		t.Errorf("the address of a client that is gone: %v", err)
	}
}

// TestManyIDsEnd: all ids of a client end with it, many of one port among them, while
// another client goes on.
func TestManyIDsEnd(t *testing.T) {
	a, _ := datapathtest.Pair(t, datapathtest.Options{})
	const many = 1000
	one, two := open(t, a), open(t, a)
	bind := func(c cmengine.Client, port uint16, reuse bool) cmfsm.ID {
		t.Helper()
		id, err := c.Create(wire.PortSpaceTCP, verbs.RC)
		if err == nil {
			err = c.SetOptions(id, cmfsm.Options{ReuseAddr: reuse})
		}
		if err == nil {
			_, err = c.Bind(id, netip.AddrPortFrom(datapathtest.IPv4[0], port))
		}
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	for i := range uint16(many) {
		bind(one, 7000, true)
		if err := one.Listen(bind(one, 8000+i, false), 0); err != nil {
			t.Fatal(err)
		}
	}
	var closing sync.WaitGroup
	closing.Go(func() {
		if err := one.Close(); err != nil {
			t.Error(err)
		}
	})
	for range 100 {
		if err := two.Destroy(bind(two, 7001, false)); err != nil {
			t.Fatal(err)
		}
	}
	closing.Wait()
	for i := range uint16(many) {
		bind(two, 8000+i, false)
	}
	if err := two.Listen(bind(two, 7000, false), 0); err != nil {
		t.Error(err)
	}
}

// TestQueuePairTaken: another connection manager on the device is an error that says so,
// and the next attempt finds everything free.
func TestQueuePairTaken(t *testing.T) {
	a, b := datapathtest.Pair(t, datapathtest.Options{})
	p, err := verbstest.NewPair(verbs.GSI, a, b, verbstest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmengine.Of(a).Open(func(cmfsm.Event) {}); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("error %v, want busy", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, a)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if _, err := cmengine.Of(a).Open(func(cmfsm.Event) {}); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("on a closed device: %v", err)
	}
}
