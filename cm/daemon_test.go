package cm_test

import (
	"errors"
	"testing"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/internal/daemon/daemontest"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// TestThroughDaemons has what two devices in memory do done by two programs, each with a
// daemon that owns its device and runs the connection manager.
func TestThroughDaemons(t *testing.T) {
	before := pair
	pair = func(t testing.TB, o datapathtest.Options) (a, b *verbs.Context) {
		a, b = daemontest.Pair(t, o)
		for _, dev := range []*verbs.Context{a, b} { // memory of queues stays a program's, so that it can be counted
			cq, err := dev.CreateCQ(64)
			if err == nil {
				err = cq.Destroy()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return a, b
	}
	standing = 2 * 2 // of each daemon one for queue pair 1, and one that follows the device
	defer func() { pair, standing = before, 0 }()
	for _, tt := range []struct {
		name string
		test func(*testing.T)
	}{
		{"connect", TestConnect}, {"connect to itself", TestConnectToItself}, {"attributes", TestAttributes}, {"private data", TestPrivateData},
		{"disconnect", TestDisconnect}, {"own objects", TestOwnObjects}, {"cycles", TestCycles},
		{"datagrams", TestUD}, {"multicast", TestMulticast}, {"ids", TestIDs}, {"own queue pairs", TestOwnQueuePairs},
		{"failures of ids", TestIDFailures}, {"states of ids", TestIDStates}, {"listen everywhere", TestListenEverywhere}, {"removal", TestRemoval},
		{"no listener", TestNoListener}, {"reject", TestReject}, {"private data too long", TestPrivateDataTooLong}, {"bad arguments", TestBadArguments},
		{"address in use", TestAddressInUse}, {"cancelled", TestCancelled}, {"lost RTU", TestLostRTU}, {"backlog", TestBacklog},
	} {
		t.Run(tt.name, tt.test)
	}
}

// TestProgramGone: the daemon tells the peers of a program that has gone.
func TestProgramGone(t *testing.T) {
	a, b := daemontest.Pair(t, datapathtest.Options{})
	l := listen(t, b, ":7471", nil)
	active, passive := connect(t, l, a, &cm.Config{AckTimeout: 10, RetryCount: 2})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		conn *cm.Conn
		want error
	}{{"its own end", passive, cm.ErrRemoved}, {"the peer", active, cm.ErrDisconnected}} {
		select {
		case <-tt.conn.Done():
			if err := tt.conn.Err(); !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
			}
		case <-within(t).Done():
			t.Errorf("%s goes on", tt.name)
		}
	}
	if _, err := l.Accept(within(t)); !errors.Is(err, cm.ErrRemoved) {
		t.Errorf("its listener: %v", err)
	}
	if _, err := cm.Dial(within(t), a, "192.0.2.2:7471", nil); !errors.Is(err, cm.ErrNoListener) {
		t.Errorf("dial: %v", err)
	}
}
