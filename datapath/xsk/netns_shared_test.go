package xsk_test

import (
	"testing"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
)

func sharedUMEM(t *testing.T) *xsk.UMEM {
	t.Helper()
	u, err := xsk.NewUMEM(xsk.UMEMConfig{Frames: 1024})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
	return u
}

// Two queues on one memory: each has its own rings, and a frame received on
// one queue is sent from the other without a copy.
func TestNetnsSharedUMEMTwoQueues(t *testing.T) {
	c := newCable(t, cableConfig{queues: 2})
	u := sharedUMEM(t)
	var near, far [2]*station
	for q := range 2 {
		s := c.socket(0, q, &xsk.Options{UMEM: u})
		near[q] = &station{t: t, port: s, pool: xsk.NewPool(u, 512*q, 512)}
		near[q].fill(256)
		far[q] = newStation(t, c.socket(1, q, nil))
	}
	for q := range 2 {
		want := payload(200, uint64(q+1))
		far[q].send(want)
		checkFrame(t, near[q].recvN(1)[0], want)
		if n := near[1-q].port.RxAvail(); n != 0 {
			t.Errorf("%d frames on the other queue", n)
		}
	}

	want := payload(300, 9)
	far[0].send(want)
	var d [1]xsk.Desc
	eventually(t, "a frame arrives", func() bool { return near[0].port.Receive(d[:]) == 1 })
	if n := near[1].port.Submit(d[:]); n != 1 {
		t.Fatal("the other socket did not take the frame")
	}
	if err := near[1].port.Kick(); err != nil {
		t.Fatal(err)
	}
	checkFrame(t, far[1].recvN(1)[0], want)
	var addr [1]uint64
	eventually(t, "the frame completes", func() bool { return near[1].port.Complete(addr[:]) == 1 })
	if near[1].pool.Put(addr[0]) || !near[0].pool.Put(addr[0]) {
		t.Error("the frame went back to the wrong pool")
	}
}

func TestNetnsSharedUMEMTwoInterfaces(t *testing.T) {
	c := newCable(t, cableConfig{})
	u := sharedUMEM(t)
	var ends [2]*station
	for i := range ends {
		ends[i] = &station{t: t, port: c.socket(i, 0, &xsk.Options{UMEM: u}), pool: xsk.NewPool(u, 512*i, 512)}
		ends[i].fill(256)
	}
	for i := range 4 {
		want := payload(500, uint64(i))
		ends[i%2].send(want)
		checkFrame(t, ends[1-i%2].recvN(1)[0], want)
		ends[i%2].reap(1)
	}
}

// Sockets on one queue share its fill and completion rings.
func TestNetnsSharedUMEMSameQueue(t *testing.T) {
	c := newCable(t, cableConfig{})
	u := sharedUMEM(t)
	first := c.socket(0, 0, &xsk.Options{UMEM: u})
	near := newStation(t, first)
	second := c.socket(0, 0, &xsk.Options{UMEM: u}) // now in the XSKMAP
	if first.FillFree() != second.FillFree() {
		t.Errorf("fill rings with %d and %d places, want one ring", first.FillFree(), second.FillFree())
	}
	far := newStation(t, c.socket(1, 0, nil))

	check := func(s *xsk.Socket, seed uint64) {
		t.Helper()
		near.port = s
		near.send(payload(64, seed))
		checkFrame(t, far.recvN(1)[0], payload(64, seed))
		near.reap(1)
		far.send(payload(64, seed+1))
		checkFrame(t, near.recvN(1)[0], payload(64, seed+1))
	}
	check(second, 10)
	c.register(0, first)
	check(first, 20)

	// The rings stay when the socket that made them goes.
	c.register(0, second)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	check(second, 30)
	third := c.socket(0, 0, &xsk.Options{UMEM: u})
	check(third, 40)
}
