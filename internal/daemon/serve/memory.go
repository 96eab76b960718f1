package serve

import (
	"fmt"
	"math"
	"os"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/shm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

func mapSegment(r *resources, q *request, m *proto.MapSegment) (any, error) {
	fd, size, err := r.mem.FD(m.Segment)
	if err != nil {
		return nil, err
	}
	// It lives as long as the session, to which this goroutine belongs.
	q.lend(fd)
	return &proto.MapSegmentReply{Size: size}, nil
}

// setMemory takes the descriptor of the client's memory, for good: regions name it
// by address alone.
func setMemory(r *resources, q *request, _ *proto.Empty) (any, error) {
	if r.limits.NoIndirect {
		return nil, noIndirect()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proc != nil {
		return nil, fmt.Errorf("%w: SET_MEMORY was there already", errProtocol)
	}
	if err := shm.CheckProcMem(q.fds[0]); err != nil {
		return nil, err
	}
	r.proc, r.procFD = datapath.NewProcessMemory(q.fds[0]), q.fds.Take(0)
	r.owner.srv.watch(r.owner, r.proc)
	return nil, nil
}

func noIndirect() error {
	return fmt.Errorf("%w: the daemon's policy allows regions on memory of AllocBuffer only", verbs.ErrPermission)
}

// process is the client's memory.
func (r *resources) process() (*datapath.ProcessMemory, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proc == nil {
		return nil, fmt.Errorf("%w: SET_MEMORY comes first", errProtocol)
	}
	return r.proc, nil
}

func allocPD(r *resources, _ *request, _ *proto.Empty) (any, error) {
	pd, err := r.ns.AllocPD()
	return &proto.PD{PD: pd}, err
}

func deallocPD(r *resources, _ *request, m *proto.PD) (any, error) {
	return nil, r.ns.DeallocPD(m.PD)
}

func allocBuffer(r *resources, _ *request, m *proto.AllocBuffer) (any, error) {
	if m.Size == 0 || m.Size > math.MaxInt32*uint64(os.Getpagesize()) {
		return nil, invalid("a buffer of %d bytes", m.Size)
	}
	p, err := r.mem.Alloc(shm.Buffers, int(m.Size), os.Getpagesize())
	if err != nil {
		return nil, err
	}
	h, err := r.buffers.add(p.Span)
	if err != nil {
		_ = r.mem.Free(p.Span)
		return nil, err
	}
	return &proto.AllocBufferReply{Handle: h, Span: p.Span}, nil
}

// freeBuffer gives memory back. A region that is still on it has what comes there
// next, which is the same client's.
func freeBuffer(r *resources, _ *request, m *proto.Handle) (any, error) {
	span, err := r.buffers.get(m.Handle)
	if err != nil {
		return nil, err
	}
	r.buffers.drop(m.Handle)
	return nil, r.mem.Free(span)
}

func adviseMR(r *resources, _ *request, m *proto.AdviseMR) (any, error) {
	if m.Count > proto.MaxAdvise {
		return nil, invalid("%d entries: 0 to %d are possible", m.Count, proto.MaxAdvise)
	}
	if m.Advice > math.MaxUint8 {
		return nil, invalid("advice %d", m.Advice)
	}
	sges := make([]verbs.SGE, m.Count)
	for i := range sges {
		e := &m.SGE[i]
		sges[i] = verbs.SGE{Addr: e.Addr, Length: e.Length, LKey: e.LKey}
	}
	return nil, r.ns.AdviseMemory(m.PD, ibv.Advice(m.Advice), sges)
}
