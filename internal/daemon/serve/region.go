package serve

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// region is a memory region of a client.
type region struct {
	p      verbs.ProviderMR
	pd     uint32
	length uint64 // 0: implicit
	kind   uint8  // proto.MemoryShared and so on
}

func regMR(r *resources, _ *request, m *proto.RegMR) (any, error) {
	p, err := r.register(m)
	if err != nil {
		return nil, err
	}
	h, err := r.mrs.add(region{p: p, pd: m.PD, length: m.Length, kind: m.Memory})
	if err != nil {
		_ = r.ns.DeregisterMemory(p) // nobody has its keys
		return nil, err
	}
	return mrReply(h, p), nil
}

func mrReply(h uint64, p verbs.ProviderMR) *proto.MRReply {
	return &proto.MRReply{Handle: h, Addr: p.Addr, LKey: p.LKey, RKey: p.RKey}
}

// register makes a region of the kind of memory that m names.
func (r *resources) register(m *proto.RegMR) (p verbs.ProviderMR, err error) {
	if err := checkRegion(m); err != nil {
		return p, err
	}
	access := ibv.Access(m.Access)
	if m.Memory == proto.MemoryShared {
		b, err := r.mem.At(m.Segment, m.Offset, m.Length)
		if err != nil {
			return p, err
		}
		return r.ns.RegisterShared(m.PD, m.Addr, b, access)
	}
	if r.limits.NoIndirect {
		return p, noIndirect()
	}
	proc, err := r.process()
	if err != nil {
		return p, err
	}
	if m.Memory == proto.MemoryImplicit {
		return r.ns.RegisterAll(m.PD, proc, access)
	}
	return r.ns.RegisterIndirect(m.PD, m.Addr, m.Length, proc, access)
}

// checkRegion says what no region can be.
func checkRegion(m *proto.RegMR) error {
	access := ibv.Access(m.Access)
	switch {
	case m.Memory > proto.MemoryImplicit:
		return invalid("memory of kind %d", m.Memory)
	case access&(ibv.AccessRemoteWrite|ibv.AccessRemoteAtomic) != 0 && access&ibv.AccessLocalWrite == 0:
		return invalid("REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE too")
	case m.Memory == proto.MemoryImplicit && access&(ibv.AccessRemoteAtomic|ibv.AccessMWBind) != 0:
		return invalid("REMOTE_ATOMIC and MW_BIND: an implicit region has neither atomics nor windows")
	case m.Memory != proto.MemoryImplicit && m.Length == 0:
		return invalid("a region without a byte")
	case m.Length != 0 && m.Addr+m.Length-1 < m.Addr:
		return invalid("%d bytes at %#x: the end of the address space is in between", m.Length, m.Addr)
	}
	return nil
}

// reregMR changes a region. Other memory may be of another kind than what it was.
func reregMR(r *resources, _ *request, m *proto.ReregMR) (any, error) {
	old, err := r.mrs.get(m.Handle)
	if err != nil {
		return nil, err
	}
	if m.Flags == 0 || m.Flags&^uint32(ibv.ReregTranslation|ibv.ReregPD|ibv.ReregAccess) != 0 {
		return nil, invalid("flags %#x", m.Flags)
	}
	to := &verbs.ProviderRereg{Flags: ibv.ReregFlags(m.Flags), PD: m.New.PD, Access: ibv.Access(m.New.Access)}
	next := old
	if to.Flags&ibv.ReregPD != 0 {
		next.pd = m.New.PD
	}
	if to.Flags&ibv.ReregTranslation != 0 {
		next.length, next.kind = m.New.Length, m.New.Memory
	}
	if next.p, err = r.reregister(&old, m, to); err != nil {
		return nil, err
	}
	r.mrs.set(m.Handle, next)
	return mrReply(m.Handle, next.p), nil
}

// reregister has the namespace change a region, to the kind of memory that m names
// if it is to be other memory.
func (r *resources) reregister(old *region, m *proto.ReregMR, to *verbs.ProviderRereg) (verbs.ProviderMR, error) {
	n := &m.New
	switch {
	case to.Flags&ibv.ReregTranslation == 0:
		return r.ns.ReregisterMemory(old.p, to)
	case n.Memory == proto.MemoryImplicit || old.kind == proto.MemoryImplicit:
		return old.p, invalid("an implicit region has no memory that could change")
	}
	// The rights are checked where those that stay are known too.
	if err := checkRegion(&proto.RegMR{Addr: n.Addr, Length: n.Length, Memory: n.Memory}); err != nil {
		return old.p, err
	}
	if n.Memory == proto.MemoryShared {
		b, err := r.mem.At(n.Segment, n.Offset, n.Length)
		if err != nil {
			return old.p, err
		}
		return r.ns.ReregisterShared(old.p, to, n.Addr, b)
	}
	if r.limits.NoIndirect {
		return old.p, noIndirect()
	}
	proc, err := r.process()
	if err != nil {
		return old.p, err
	}
	return r.ns.ReregisterIndirect(old.p, to, n.Addr, n.Length, proc)
}

func deregMR(r *resources, _ *request, m *proto.Handle) (any, error) {
	mr, err := r.mrs.get(m.Handle)
	if err != nil {
		return nil, err
	}
	if err := r.ns.DeregisterMemory(mr.p); err != nil {
		return nil, err
	}
	r.mrs.drop(m.Handle)
	return nil, nil
}

func allocMW(r *resources, _ *request, m *proto.AllocMW) (any, error) {
	if m.Type != uint32(ibv.MWType1) && m.Type != uint32(ibv.MWType2) {
		return nil, invalid("memory windows of type %d: 1 and 2 are possible", m.Type)
	}
	p, err := r.ns.AllocMW(m.PD, ibv.MWType(m.Type))
	if err != nil {
		return nil, err
	}
	h, err := r.mws.add(p)
	if err != nil {
		_ = r.ns.DeallocMW(p) // nobody has its key
		return nil, err
	}
	return &proto.MWReply{Handle: h, RKey: p.RKey}, nil
}

func deallocMW(r *resources, _ *request, m *proto.Handle) (any, error) {
	mw, err := r.mws.get(m.Handle)
	if err != nil {
		return nil, err
	}
	if err := r.ns.DeallocMW(mw); err != nil {
		return nil, err
	}
	r.mws.drop(m.Handle)
	return nil, nil
}

func allocFastMR(r *resources, _ *request, m *proto.AllocFastMR) (any, error) {
	if m.Limit == 0 {
		return nil, invalid("a fast region for 0 bytes")
	}
	p, err := r.ns.AllocFastMR(m.PD, m.Limit)
	if err != nil {
		return nil, err
	}
	h, err := r.fast.add(p)
	if err != nil {
		_ = r.ns.DeallocFastMR(p) // nobody has its keys
		return nil, err
	}
	return mrReply(h, p), nil
}

func deallocFast(r *resources, _ *request, m *proto.Handle) (any, error) {
	mr, err := r.fast.get(m.Handle)
	if err != nil {
		return nil, err
	}
	if err := r.ns.DeallocFastMR(mr); err != nil {
		return nil, err
	}
	r.fast.drop(m.Handle)
	return nil, nil
}
