package datapath

import (
	"runtime"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// crowd is many connections between the devices of a rig that share domains,
// completion queues and regions.
type crowd struct {
	pds  [2]*verbs.PD
	cqs  [2]*verbs.CQ
	mrs  [2]*verbs.MR
	qps  [2][]*verbs.QP
	gids [2]verbs.GIDEntry
}

func newCrowd(t testing.TB, a, b *verbs.Context, cqe int) *crowd {
	t.Helper()
	c := &crowd{}
	for i, dev := range []*verbs.Context{a, b} {
		var err error
		fail := func() {
			if err != nil {
				t.Fatal(err)
			}
		}
		c.pds[i], err = dev.AllocPD()
		fail()
		c.cqs[i], err = dev.CreateCQ(cqe)
		fail()
		buf, err := dev.AllocBuffer(1 << 16)
		fail()
		c.mrs[i], err = c.pds[i].RegisterMemory(buf, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
		fail()
		c.gids[i], err = dev.DefaultGID()
		fail()
	}
	return c
}

// add connects n more pairs of queue pairs of the given capacities.
func (c *crowd) add(t testing.TB, n int, capacity verbs.QPCap) {
	t.Helper()
	path := connect.Path{MTU: verbs.MTU1024, Access: verbs.AccessRemoteWrite | verbs.AccessRemoteRead}
	for range n {
		var ends [2]connect.Endpoint
		for i := range ends {
			qp, err := c.pds[i].CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: c.cqs[i], RecvCQ: c.cqs[i], Cap: capacity})
			if err == nil {
				err = connect.ToInit(qp, path)
			}
			if err != nil {
				t.Fatal(err)
			}
			ends[i] = connect.Local(qp, c.gids[i], nil)
			c.qps[i] = append(c.qps[i], qp)
		}
		for i := range ends {
			path.SGIDIndex = c.gids[i].Index
			if err := connect.Connect(c.qps[i][len(c.qps[i])-1], path, ends[i], ends[1-i]); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// heap is what is in use of the heap.
func heap() int64 {
	var m runtime.MemStats
	for range 2 { // the second collects what finalizers of the first have let go
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestIdleQPMemory: an idle queue pair takes at most 4 KiB besides its rings,
// which are the memory that a program asks for by its capacities.
func TestIdleQPMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const n = 1000
	for _, tt := range []struct {
		name string
		cap  verbs.QPCap
	}{
		{"small", verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}},
		{"defaults", verbs.QPCap{}},
		{"large", verbs.QPCap{MaxSendWR: 1024, MaxRecvWR: 1024, MaxSendSGE: 16, MaxRecvSGE: 16, MaxInline: 256}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, rigOptions{opts: Options{NoBackground: true}})
			c := newCrowd(t, r.ca, r.cb, 64)
			c.add(t, 10, tt.cap)
			before := heap()
			c.add(t, n, tt.cap)
			all := (heap() - before) / (2 * n)

			cp := c.qps[0][0].Cap()
			rings := make([]*queue.Ring, 0, 2*n)
			before = heap()
			for range n {
				for _, size := range [][2]int{
					{cp.MaxSendWR, queue.SendElemSize(cp.MaxSendSGE, cp.MaxInline)}, {cp.MaxRecvWR, queue.RecvElemSize(cp.MaxRecvSGE)},
				} {
					ring, err := queue.New(size[0], size[1])
					if err != nil {
						t.Fatal(err)
					}
					rings = append(rings, ring)
				}
			}
			own := all - (heap()-before)/n
			runtime.KeepAlive(rings)
			runtime.KeepAlive(c)
			if own > 4096 {
				t.Errorf("a queue pair takes %d bytes, %d of them besides its rings: at most 4096", all, own)
			}
			t.Logf("a queue pair takes %d bytes, %d of them besides its rings", all, own)
		})
	}
}
