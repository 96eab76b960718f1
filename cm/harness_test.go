package cm_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is longer than anything here takes on a slow machine.
const patience = 30 * time.Second

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// pair makes two devices that are joined.
var pair = datapathtest.Pair

// devices are two devices joined in memory.
func devices(t testing.TB) (a, b *verbs.Context) {
	t.Helper()
	return pair(t, datapathtest.Options{})
}

func listen(t testing.TB, dev *verbs.Context, address string, cfg *cm.Config) *cm.Listener {
	t.Helper()
	l, err := cm.Listen(dev, address, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func closeLater(t testing.TB, c *cm.Conn) *cm.Conn {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// connect has one device dial the other.
func connect(t testing.TB, l *cm.Listener, from *verbs.Context, cfg *cm.Config) (active, passive *cm.Conn) {
	t.Helper()
	ctx := within(t)
	var wg sync.WaitGroup
	var err error
	wg.Go(func() { passive, err = l.Accept(ctx) })
	to := l.Addr()
	if to.Addr().IsUnspecified() {
		to = netip.AddrPortFrom(datapathtest.IPv4[1], to.Port())
	}
	active, dialErr := cm.Dial(ctx, from, to.String(), cfg)
	if dialErr != nil {
		_ = l.Close()
	}
	wg.Wait()
	if err := errors.Join(dialErr, err); err != nil {
		t.Fatal(err)
	}
	return closeLater(t, active), closeLater(t, passive)
}

// echo moves a message each way over a connection.
func echo(t testing.TB, a, b *cm.Conn) {
	t.Helper()
	for _, way := range [][2]*cm.Conn{{a, b}, {b, a}} {
		from, to := way[0], way[1]
		message := []byte("hello, RDMA")
		buf := make([]byte, 64)
		mr, err := to.PD().RegisterMemory(buf, verbs.AccessLocalWrite)
		if err != nil {
			t.Fatal(err)
		}
		if err := to.QP().PostRecv(&verbs.RecvWR{WRID: 1, SGList: []verbs.SGE{mr.SGE(0, len(buf))}}); err != nil {
			t.Fatal(err)
		}
		send(t, from, message)
		var wc [1]verbs.WC
		if _, err := to.RecvCQ().Wait(within(t), wc[:]); err != nil {
			t.Fatal(err)
		}
		if err := wc[0].Err(); err != nil || !bytes.Equal(buf[:wc[0].ByteLen], message) {
			t.Errorf("received %q, %v", buf[:wc[0].ByteLen], err)
		}
		if err := mr.Deregister(); err != nil {
			t.Fatal(err)
		}
	}
}

// send sends inline data and waits until it has arrived.
func send(t testing.TB, c *cm.Conn, b []byte) {
	t.Helper()
	mr, err := c.PD().RegisterMemory(b, 0)
	if err != nil {
		t.Fatal(err)
	}
	err = c.QP().PostSend(&verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mr.SGE(0, len(b))}})
	if err != nil {
		t.Fatal(err)
	}
	var wc [1]verbs.WC
	if _, err := c.SendCQ().Wait(within(t), wc[:]); err != nil || wc[0].Err() != nil {
		t.Fatal(err, wc[0].Err())
	}
	if err := mr.Deregister(); err != nil {
		t.Fatal(err)
	}
}

// waitFor waits until cond holds.
func waitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// padded is private data as the other end gets it.
func padded(b []byte, n int) []byte { return append(bytes.Clone(b), make([]byte, n-len(b))...) }

func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i + 1)
	}
	return b
}
