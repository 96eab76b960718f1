package verbs

import (
	"errors"
	"fmt"
	"sync"
)

// PD is a protection domain (ibv_pd): a queue pair reaches only the memory
// regions of its own.
type PD struct {
	ctx    *Context
	handle uint32

	making sync.RWMutex // held by CreateAH for reading, before mu

	mu   sync.RWMutex
	gone bool
	qps  int
	srqs int
	mrs  map[uint32]*MR // by lkey
	mws  map[*MW]struct{}
	fast map[*FastMR]struct{}
	ahs  map[*AH]struct{}
}

// Context is the device of the protection domain.
func (pd *PD) Context() *Context { return pd.ctx }

func (pd *PD) name() string { return fmt.Sprintf("pd %d", pd.handle) }

// Dealloc frees the domain. It is ErrBusy while it has queue pairs, shared receive
// queues, regions, memory windows or address handles.
func (pd *PD) Dealloc() error {
	pd.making.Lock()
	defer pd.making.Unlock()
	pd.mu.Lock()
	if pd.gone {
		pd.mu.Unlock()
		return nil
	}
	if n, s, m, w, h := pd.qps, pd.srqs, len(pd.mrs)+len(pd.fast), len(pd.mws), len(pd.ahs); n+s+m+w+h > 0 {
		pd.mu.Unlock()
		return opErr("deallocate", pd.name(), fmt.Errorf("%w: %d queue pairs, %d shared receive queues, %d memory regions, %d memory windows and %d address handles: destroy them first", ErrBusy, n, s, m, w, h))
	}
	pd.gone = true
	pd.mu.Unlock()
	pd.ctx.mu.Lock()
	delete(pd.ctx.pds, pd)
	pd.ctx.mu.Unlock()
	return opErr("deallocate", pd.name(), pd.ctx.p.DeallocPD(pd.handle))
}

func (pd *PD) destroyAll() error {
	pd.mu.RLock()
	mrs := make([]*MR, 0, len(pd.mrs))
	for _, mr := range pd.mrs {
		mrs = append(mrs, mr)
	}
	ahs, mws, fast := keys(pd.ahs), keys(pd.mws), keys(pd.fast)
	pd.mu.RUnlock()
	var errs []error
	for _, ah := range ahs {
		errs = append(errs, ah.Destroy())
	}
	// Regions are free when nothing is bound to them any more.
	for _, w := range mws {
		errs = append(errs, w.Dealloc())
	}
	for _, m := range fast {
		errs = append(errs, m.Deregister())
	}
	for _, mr := range mrs {
		errs = append(errs, mr.Deregister())
	}
	return errors.Join(append(errs, pd.Dealloc())...)
}

// overlaps is a region registered on any byte of b, or nil.
func (pd *PD) overlaps(b []byte) *MR {
	pd.mu.RLock()
	defer pd.mu.RUnlock()
	for _, mr := range pd.mrs {
		if overlap(mr.Bytes(), b) {
			return mr
		}
	}
	return nil
}
