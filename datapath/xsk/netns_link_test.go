package xsk_test

import (
	"errors"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
)

func (c *cable) setUp(i int, up bool) {
	c.t.Helper()
	set := netlink.LinkSetDown
	if up {
		set = netlink.LinkSetUp
	}
	if err := set(c.ends[i].link); err != nil {
		c.t.Fatal(err)
	}
}

func TestNetnsLinkDownAndUp(t *testing.T) {
	c := newCable(t, cableConfig{})
	a, b := newStation(t, c.socket(0, 0, nil)), newStation(t, c.socket(1, 0, nil))
	a.send(payload(64, 1))
	checkFrame(t, b.recvN(1)[0], payload(64, 1))

	c.setUp(0, false)
	descs := a.lay(payload(64, 2))
	if a.port.Submit(descs) != 1 {
		t.Fatal("Submit refused a frame")
	}
	err := a.port.Kick()
	if !errors.Is(err, xsk.ErrDown) || errors.Is(err, xsk.ErrGone) || !errors.Is(err, unix.ENETDOWN) {
		t.Fatalf("Kick on a link that is down: %v, want ErrDown with ENETDOWN", err)
	}
	if allocs := testing.AllocsPerRun(10, func() { err = a.port.Kick() }); allocs != 0 || err == nil {
		t.Errorf("Kick on a link that is down: error %v with %v allocations", err, allocs)
	}
	if n := a.port.TxPending(); n != 1 {
		t.Errorf("%d descriptors queued, want the one that was", n)
	}
	if err := a.port.WakeFill(); !errors.Is(err, xsk.ErrDown) {
		t.Errorf("WakeFill on a link that is down: %v, want ErrDown", err)
	}
	if st, err := a.port.Stats(); err != nil || st.FillWakeupErrors != 1 || st.KickErrors == 0 {
		t.Errorf("counted %d failed wake-ups and %d failed kicks (%v)", st.FillWakeupErrors, st.KickErrors, err)
	}

	c.setUp(0, true)
	c.waitRunning()
	if err := a.port.Kick(); err != nil {
		t.Fatalf("Kick after the link came up: %v", err)
	}
	checkFrame(t, b.recvN(1)[0], payload(64, 2))
	b.send(payload(64, 3))
	checkFrame(t, a.recvN(1)[0], payload(64, 3))
	a.reap(2)
}

// While the peer is down the device drops each frame and the kernel answers
// EBUSY: all of a burst must leave all the same, none may wait for later.
func TestNetnsPeerDown(t *testing.T) {
	c := newCable(t, cableConfig{})
	sa := c.socket(0, 0, nil)
	a, b := newStation(t, sa), newStation(t, c.socket(1, 0, nil))
	c.setUp(1, false)
	var frames [][]byte
	for i := range 8 {
		frames = append(frames, payload(64, uint64(i)))
	}
	a.send(frames...)
	if n := a.port.TxPending(); n != 0 {
		t.Errorf("%d frames stay queued", n)
	}
	a.reap(8)
	if st, err := sa.Stats(); err != nil || st.KickBusy != 8 {
		t.Errorf("%d calls answered EBUSY (%v), want one for each frame", st.KickBusy, err)
	}
	c.setUp(1, true)
	c.waitRunning()
	a.send(payload(64, 99))
	checkFrames(t, b.recvN(1), [][]byte{payload(64, 99)})
}

func TestNetnsInterfaceRemoved(t *testing.T) {
	c := newCable(t, cableConfig{})
	s := c.socket(0, 0, nil)
	a := newStation(t, s)
	w, err := xsk.NewWaiter(s)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := netlink.LinkDel(c.ends[0].link); err != nil {
		t.Fatal(err)
	}
	a.port.Submit(a.lay(payload(64, 1)))
	if err := s.Kick(); !errors.Is(err, xsk.ErrGone) || !errors.Is(err, xsk.ErrDown) {
		t.Errorf("Kick without an interface: %v, want ErrGone", err)
	}
	if _, _, err := s.Poll(10 * time.Millisecond); err != nil && !errors.Is(err, xsk.ErrDown) {
		t.Errorf("Poll without an interface: %v", err)
	}
	if woken, err := w.Sleep(10 * time.Millisecond); woken || err != nil {
		t.Errorf("Sleep without an interface: %v, %v: must not keep a worker awake", woken, err)
	}
	if _, err := s.Stats(); err != nil {
		t.Errorf("Stats without an interface: %v", err)
	}
}
