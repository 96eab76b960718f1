package verbs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// AH is an address handle (ibv_ah): the way of datagrams to a peer, found once
// and named by each UD send work request.
type AH struct {
	pd     *PD
	handle uint32
	av     AddressVector
	group  bool // av leads to a multicast group
	gone   atomic.Bool
	once   sync.Once
	err    error
}

// CreateAH finds the way to the peer of an address vector, as QP.Modify does for
// a connection, with the same errors: it may take as long as the peer needs to
// answer for its link-layer address. Changes of that are followed until Destroy.
// A multicast group has its link-layer address by itself.
func (pd *PD) CreateAH(av *AddressVector) (*AH, error) {
	return pd.CreateAHContext(context.Background(), av)
}

// CreateAHContext is CreateAH which waits until ctx ends, if that has a deadline also
// longer than 3 s. When ctx is cancelled the error is that of ctx, unless the handle was
// made by then; with an error there is none.
func (pd *PD) CreateAHContext(ctx context.Context, av *AddressVector) (*AH, error) {
	if av == nil {
		return nil, opErr("create ah", pd.name(), invalid("no address vector"))
	}
	if err := ctx.Err(); err != nil {
		return nil, opErr("create ah", pd.name(), err)
	}
	// Posting looks up regions under mu: that stays free while the peer is asked.
	pd.making.RLock()
	defer pd.making.RUnlock()
	if err := pd.usable(); err != nil {
		return nil, opErr("create ah", pd.name(), err)
	}
	h, err := pd.ctx.p.CreateAH(ctx, pd.handle, av)
	if err != nil {
		return nil, opErr("create ah", pd.name(), err)
	}
	ah := &AH{pd: pd, handle: h, av: *av, group: av.DGID.Addr().IsMulticast()}
	pd.mu.Lock()
	pd.ahs[ah] = struct{}{}
	pd.mu.Unlock()
	return ah, nil
}

// CreateAHFromWC makes the handle with which a received datagram is answered
// (ibv_create_ah_from_wc): wc is its completion, grh begins with the GRHLen bytes
// in front of its payload. The request goes to WC.SrcQP.
func (pd *PD) CreateAHFromWC(wc *WC, grh []byte) (*AH, error) {
	av, err := pd.ctx.InitAHFromWC(wc, grh)
	if err != nil {
		return nil, err
	}
	return pd.CreateAH(&av)
}

// Attr is the address vector that the handle was made of.
func (ah *AH) Attr() AddressVector { return ah.av }

// Destroy frees the handle. When it returns no datagram leaves by it any more.
// Work requests in a send queue that still name it fail with WCLocalQPOperation:
// wait for their completions first. Destroying twice is no error.
func (ah *AH) Destroy() error {
	ah.once.Do(func() {
		ah.gone.Store(true)
		pd := ah.pd
		ah.err = opErr("destroy ah", fmt.Sprintf("ah %#x", ah.handle), pd.ctx.p.DestroyAH(ah.handle))
		pd.mu.Lock()
		delete(pd.ahs, ah)
		pd.mu.Unlock()
	})
	return ah.err
}

// usable is nil unless the domain or its device is gone.
func (pd *PD) usable() error {
	pd.mu.RLock()
	gone := pd.gone
	pd.mu.RUnlock()
	if gone {
		return ErrClosed
	}
	return pd.ctx.alive()
}
