package main

import (
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/test/netns"
)

// The raw baseline: the sockets, threads, frame sizes and kick sizes of the
// device, its steering program in front, and no protocol at all. What it reaches
// is what AF_XDP itself allows on this machine.

const (
	rawQPN    = 0x77
	rawFrames = 8192
	rawRing   = 2048
	rawBatch  = 64
	// yieldEvery is how many empty rounds a poller waits before it lets others
	// run, as the device's pollers do on few CPUs.
	yieldEvery = 16
)

// rawEnd is one AF_XDP socket with its pool and a frame template.
type rawEnd struct {
	steer *bpf.Steer
	sock  *xsk.Socket
	pool  *xsk.Pool
	path  wire.Path
	descs []xsk.Desc
	addrs []uint64
	kicks []time.Duration // spent inside each Kick, when it has room
}

func openRaw(at, peer *netns.End) (*rawEnd, error) {
	e := &rawEnd{descs: make([]xsk.Desc, 2*rawBatch), addrs: make([]uint64, 4*rawBatch)}
	err := at.NS.Do(func() (err error) {
		if e.steer, err = bpf.Load(nil); err != nil {
			return err
		}
		if err = e.steer.Attach(at.Ifindex, bpf.ModeAuto); err != nil {
			return err
		}
		e.sock, err = xsk.NewSocket(at.Ifindex, 0, &xsk.Options{
			UMEMConfig: xsk.UMEMConfig{Frames: rawFrames, FrameSize: 4096},
			FillSize:   rawFrames / 2, RxSize: rawRing, TxSize: rawRing, CompSize: rawRing,
			MultiBuffer: true,
		})
		return err
	})
	if err == nil {
		err = e.steer.Register(0, e.sock.FD())
	}
	if err == nil {
		err = e.steer.AddQPN(rawQPN)
	}
	if err == nil {
		err = e.steer.AddAddress(at.IPv4)
	}
	if err == nil {
		err = e.path.Set(&wire.PathFields{
			DstMAC: [6]byte(peer.MAC), SrcMAC: [6]byte(at.MAC),
			SrcGID: mapped(at.IPv4), DstGID: mapped(peer.IPv4), TTL: 64, UDPSrcPort: 0xC000,
		})
	}
	if err != nil {
		e.close()
		return nil, fmt.Errorf("raw AF_XDP end: %w", err)
	}
	e.pool = xsk.NewPool(e.sock.UMEM(), 0, rawFrames)
	e.refill()
	return e, nil
}

func mapped(a netip.Addr) [16]byte { return a.As16() }

func (e *rawEnd) close() {
	if e.sock != nil {
		_ = e.sock.Close()
	}
	if e.steer != nil {
		_ = e.steer.Close()
	}
}

// refill lends free frames to the kernel; half the pool stays for sending.
func (e *rawEnd) refill() {
	for e.sock.FillFree() >= rawBatch && e.pool.Free() > rawFrames/2 {
		n := e.pool.Get(e.addrs[:rawBatch])
		e.sock.Fill(e.addrs[:n])
	}
}

func (e *rawEnd) reap() {
	for {
		n := e.sock.Complete(e.addrs)
		e.pool.PutAll(e.addrs[:n])
		if n < len(e.addrs) {
			return
		}
	}
}

// put lays out one frame with payload bytes, as one descriptor for each chunk,
// and appends it to descs[n:].
func (e *rawEnd) put(n, payload int) int {
	const chunk = 4096
	addr, _ := e.pool.GetOne()
	b := e.sock.Frame(xsk.Desc{Addr: addr, Len: chunk})
	ib := 28 + payload + 4
	hdr := e.path.Put(b, ib, 0)
	h := wire.BTHAt(b[hdr:])
	*h = wire.BTH{}
	h.SetOpcode(wire.WriteOnly)
	h.SetDestQP(rawQPN)
	total := hdr + ib
	if total <= chunk {
		e.descs[n] = xsk.Desc{Addr: addr, Len: uint32(total)}
		return n + 1
	}
	second, _ := e.pool.GetOne()
	e.descs[n] = xsk.Desc{Addr: addr, Len: chunk, Options: xsk.Continued}
	e.descs[n+1] = xsk.Desc{Addr: second, Len: uint32(total - chunk)}
	return n + 2
}

func (e *rawEnd) send(frames, payload int) {
	n := 0
	for range frames {
		n = e.put(n, payload)
	}
	e.sock.Submit(e.descs[:n])
	t := time.Now()
	_ = e.sock.Kick()
	if len(e.kicks) < cap(e.kicks) {
		e.kicks = append(e.kicks, time.Since(t))
	}
	e.reap()
}

// receive takes what has arrived and returns the number of frames.
func (e *rawEnd) receive() int {
	n := e.sock.Receive(e.descs[:rawBatch])
	frames := 0
	for _, d := range e.descs[:n] {
		if d.Options&xsk.Continued == 0 {
			frames++
		}
		e.pool.Put(d.Addr)
	}
	if n > 0 {
		e.refill()
	}
	return frames
}

// rawPair is the baseline on one veth pair.
type rawPair struct{ a, b *rawEnd }

func openRawPair(p *netns.Pair) (*rawPair, error) {
	a, err := openRaw(p.A, p.B)
	if err != nil {
		return nil, err
	}
	b, err := openRaw(p.B, p.A)
	if err != nil {
		a.close()
		return nil, err
	}
	return &rawPair{a, b}, nil
}

func (r *rawPair) close() { r.a.close(); r.b.close() }

// pingPong bounces one frame n times and returns the round trip times, and what
// the two kicks of a round trip take together, at the median.
func (r *rawPair) pingPong(payload, n int, deadline time.Time) (rtt []time.Duration, kicks time.Duration, err error) {
	rtt = make([]time.Duration, 0, n)
	r.a.kicks, r.b.kicks = make([]time.Duration, 0, n), make([]time.Duration, 0, n)
	defer func() { r.a.kicks, r.b.kicks = nil, nil }()
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for idle := 1; !stop.Load(); idle++ {
			if r.b.receive() > 0 {
				r.b.send(1, payload)
			} else if idle%yieldEvery == 0 {
				runtime.Gosched()
			}
		}
	})
	for i := 0; i < n && err == nil; i++ {
		t := time.Now()
		r.a.send(1, payload)
		for spins := 1; r.a.receive() == 0; spins++ {
			if spins%yieldEvery != 0 {
				continue
			}
			runtime.Gosched()
			if time.Now().After(deadline) {
				err = fmt.Errorf("raw ping-pong of %d bytes: no answer in round %d", payload, i)
				break
			}
		}
		rtt = append(rtt, time.Since(t))
	}
	stop.Store(true)
	wg.Wait()
	ka, _ := percentiles(r.a.kicks)
	kb, _ := percentiles(r.b.kicks)
	return rtt, ka + kb, err
}

// oneWay sends n frames from a to b in kicks of batch frames and returns the
// time. At most half a fill ring is in flight, so that nothing is dropped.
func (r *rawPair) oneWay(payload, n, batch int, deadline time.Time) (time.Duration, error) {
	per := 1
	if payload > 3700 {
		per = 2
	}
	window := rawRing / 2 / per
	var got atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			if k := r.b.receive(); k > 0 {
				got.Add(int64(k))
			} else {
				runtime.Gosched()
			}
		}
	})
	start := time.Now()
	var err error
	for sent := 0; int(got.Load()) < n; {
		if sent < n && sent-int(got.Load())+batch <= window {
			k := min(batch, n-sent)
			r.a.send(k, payload)
			sent += k
			continue
		}
		if time.Now().After(deadline) {
			err = fmt.Errorf("raw one-way of %d bytes: %d of %d frames arrived", payload, got.Load(), n)
			break
		}
		runtime.Gosched()
	}
	d := time.Since(start)
	stop.Store(true)
	wg.Wait()
	return d, err
}
