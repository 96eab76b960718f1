package datapath

import (
	"context"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// remote is a client as another process is one, over mappings of its own of all that
// is shared: queues, doorbells, states and buffers. It rings doorbells, wakes workers
// by event counters and drives nothing. It implements verbs.Provider.
type remote struct {
	*Client
	t      testing.TB
	states *queue.States
	bells  []*queue.Bells // of the workers, as the client sees them
	wakes  []int
	mem    *os.File

	mu      sync.Mutex
	twins   map[*queue.Ring]*queue.Ring // the client's view of a ring
	qps     map[*qp]*remoteQP
	cqs     map[*cq]*remoteCQ
	buffers map[*byte][]byte // the device's view of a buffer of the client
	views   [][]byte         // all mappings
	rings   int              // that were not freed
	written int              // event counters
	ended   bool
}

type remoteQP struct {
	*qp
	r *remote
}

type remoteCQ struct {
	*cq
	r     *remote
	event chan struct{}
}

// twice maps new memory twice: as the device sees it, and as the client does. It is
// unmapped when the client is gone.
func (r *remote) twice(size int) (ours, theirs []byte) {
	t := r.t
	t.Helper()
	fd, err := unix.MemfdCreate("shared", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		t.Fatal(err)
	}
	var views [2][]byte
	for i := range views {
		if views[i], err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
			t.Fatal(err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.views = append(r.views, views[:]...)
	return views[0], views[1]
}

// newRemote makes a client of d in other memory, and a context of it. cfg has what
// it may.
func newRemote(t testing.TB, d *Device, cfg ClientConfig) (*remote, *verbs.Context) {
	t.Helper()
	r := &remote{
		t: t, twins: map[*queue.Ring]*queue.Ring{}, qps: map[*qp]*remoteQP{}, cqs: map[*cq]*remoteCQ{}, buffers: map[*byte][]byte{},
		states: d.posture.words,
	}
	const slots = 1000
	size, err := queue.BellsSize(slots)
	must(t, err)
	for range d.workers {
		ours, theirs := r.twice(size)
		b, err := queue.OpenBells(ours, slots)
		must(t, err)
		cfg.Bells = append(cfg.Bells, b)
		b, err = queue.OpenBells(theirs, slots)
		must(t, err)
		r.bells = append(r.bells, b)
		fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
		must(t, err)
		r.wakes = append(r.wakes, fd)
	}
	cfg.WakeFDs, cfg.NewRing, cfg.FreeRing = r.wakes, r.newRing, r.freeRing
	if r.Client, err = d.NewClient(&cfg); err != nil {
		t.Fatal(err)
	}
	if r.mem, err = os.OpenFile("/proc/self/mem", os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	ctx := verbs.NewContext(r)
	t.Cleanup(func() {
		if err := ctx.Close(); err != nil {
			t.Errorf("close %s: %v", cfg.Name, err)
		}
		r.end()
	})
	return r, ctx
}

// end closes the client, whatever it has, and takes away all that it shared.
func (r *remote) end() {
	if err := r.Client.Close(); err != nil {
		r.t.Errorf("close %s: %v", r.cfg.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.ended = true
	if r.rings != 0 {
		r.t.Errorf("%s: %d rings were not freed", r.cfg.Name, r.rings)
	}
	for _, v := range r.views {
		must(r.t, unix.Munmap(v))
	}
	for _, fd := range r.wakes {
		must(r.t, unix.Close(fd))
	}
	must(r.t, r.mem.Close())
}

func (r *remote) newRing(entries, elem int) (*queue.Ring, error) {
	size, _, err := queue.Size(entries, elem)
	if err != nil {
		return nil, err
	}
	ours, theirs := r.twice(size)
	ring, err := queue.Format(ours, entries, elem)
	must(r.t, err)
	twin, err := queue.Open(theirs)
	must(r.t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.twins[ring] = twin
	r.rings++
	return ring, nil
}

func (r *remote) freeRing(ring *queue.Ring) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.twins[ring] == nil {
		r.t.Error("a ring was freed twice")
	}
	delete(r.twins, ring)
	r.rings--
}

func (r *remote) twin(ring *queue.Ring) *queue.Ring {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.twins[ring]
}

func (r *remote) AllocBuffer(n int) ([]byte, error) {
	ours, theirs := r.twice(n)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buffers[&theirs[0]] = ours
	return theirs, nil
}

func (r *remote) FreeBuffer([]byte) error { return nil }

// RegisterMemory registers a buffer, or other memory of the process through /proc.
func (r *remote) RegisterMemory(pd uint32, b []byte, access ibv.Access) (verbs.ProviderMR, error) {
	r.mu.Lock()
	ours := r.buffers[&b[0]]
	r.mu.Unlock()
	if ours == nil {
		return r.RegisterIndirect(pd, memory.AddressOf(b), uint64(len(b)), NewProcessMemory(int(r.mem.Fd())), access)
	}
	return r.RegisterShared(pd, memory.AddressOf(b), ours[:len(b)], access)
}

func (r *remote) CreateCQ(entries int) (verbs.ProviderCQ, error) {
	p, err := r.Client.CreateCQ(entries)
	if err != nil {
		return nil, err
	}
	c := &remoteCQ{p.(*cq), r, make(chan struct{}, 1)}
	c.OnEvent(func() {
		select {
		case c.event <- struct{}{}:
		default:
		}
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cqs[c.cq] = c
	return c, nil
}

func (c *remoteCQ) Ring() *queue.Ring { return c.r.twin(c.cq.Ring()) }
func (c *remoteCQ) Progress() bool    { return false }

func (c *remoteCQ) WaitEvent(ctx context.Context) error {
	select {
	case <-c.event:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.r.done:
		return ErrClosed
	}
}

func (r *remote) CreateQP(init *verbs.ProviderQPInit) (verbs.ProviderQP, error) {
	own := *init
	if init.SendCQ != nil {
		own.SendCQ = init.SendCQ.(*remoteCQ).cq
	}
	if init.RecvCQ != nil {
		own.RecvCQ = init.RecvCQ.(*remoteCQ).cq
	}
	p, err := r.Client.CreateQP(&own)
	if err != nil {
		return nil, err
	}
	q := &remoteQP{p.(*qp), r}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.qps[q.qp] = q
	return q, nil
}

func (q *remoteQP) SQ() *queue.Ring { return q.r.twin(q.qp.SQ()) }

func (q *remoteQP) RQ() *queue.Ring { return q.r.twin(q.qp.RQ()) }

func (q *remoteQP) Doorbell() {
	w := q.Worker()
	q.r.bells[w].Ring(q.Slot())
	if !q.r.states.Asleep(w) {
		return
	}
	q.r.mu.Lock()
	q.r.written++
	q.r.mu.Unlock()
	if _, err := unix.Write(q.r.wakes[w], []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		q.r.t.Error(err)
	}
}

func (q *remoteQP) RecvDoorbell() {
	if q.RQ().Arm().Load() != queue.ArmNone {
		q.Doorbell()
	}
}

func (r *remote) NextEvent(ctx context.Context) (verbs.ProviderEvent, error) {
	e, err := r.Client.NextEvent(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if q, ok := e.QP.(*qp); ok {
		e.QP = r.qps[q]
	}
	if c, ok := e.CQ.(*cq); ok {
		e.CQ = r.cqs[c]
	}
	return e, err
}

func (r *remote) Progress() bool { return false }
