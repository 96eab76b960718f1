package xsk_test

import (
	"fmt"
	"log"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/datapath/xsk/xsktest"
)

// Reflect sends every received frame back. It works on a Socket and, in
// tests, on an xsktest.Port.
func reflect(port xsk.Port, pool *xsk.Pool, waiter xsk.Waiter, stop func() bool) error {
	var descs [64]xsk.Desc
	var addrs [64]uint64
	for !stop() {
		// Keep the fill ring full, and take back what was transmitted.
		free := addrs[:min(len(addrs), port.FillFree())]
		port.Fill(free[:pool.Get(free)])
		pool.PutAll(addrs[:port.Complete(addrs[:])])

		// Never receive more than can be sent on.
		n := port.Receive(descs[:min(len(descs), port.TxFree())])
		if n == 0 {
			if _, err := waiter.Sleep(100 * time.Millisecond); err != nil {
				return err
			}
			continue
		}
		for _, d := range descs[:n] {
			frame := port.UMEM().Frame(d)
			for i := range 6 { // swap the Ethernet addresses
				frame[i], frame[6+i] = frame[6+i], frame[i]
			}
		}
		port.Submit(descs[:n])
		if err := port.Kick(); err != nil {
			return err
		}
	}
	return nil
}

// A loop over a port, here one in memory: NewSocket gives one of an interface.
func Example() {
	near, far := xsktest.Pair(xsktest.Config{})
	defer near.Close()
	defer far.Close()
	waiter := xsktest.NewWaiter(near)
	defer waiter.Close()

	far.Fill([]uint64{4096})
	copy(far.UMEM().Bytes(), "to____from__data")
	far.Submit([]xsk.Desc{{Addr: 0, Len: 16}})

	pool := xsk.NewPool(near.UMEM(), 0, near.UMEM().Frames())
	rounds := 0
	err := reflect(near, pool, waiter, func() bool {
		if rounds++; rounds == 2 {
			if err := far.Kick(); err != nil { // the first round has filled
				log.Fatal(err)
			}
		}
		return far.RxAvail() != 0
	})
	if err != nil {
		log.Fatal(err)
	}
	var got [1]xsk.Desc
	far.Receive(got[:])
	fmt.Printf("%s\n", far.Frame(got[0]))
	// Output: from__to____data
}
