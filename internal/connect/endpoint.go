package connect

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// ErrEndpoint reports an endpoint that no queue pair can be connected to.
var ErrEndpoint = errors.New("peer's endpoint is not usable")

// Endpoint is what one end tells the other.
type Endpoint struct {
	QPN  uint32     `json:"qpn"` // 24 bits
	PSN  uint32     `json:"psn"` // first PSN that it sends, 24 bits
	GID  netip.Addr `json:"gid"` // its address
	Addr uint64     `json:"addr"`
	RKey uint32     `json:"rkey"`
	Len  uint64     `json:"len"` // bytes of the region at Addr
}

const max24 = 1<<24 - 1

// Check reports why a queue pair could not be connected to e. What a peer sent
// goes through it before it is used.
func (e *Endpoint) Check() error {
	switch {
	case e.QPN < 2 || e.QPN >= max24:
		return fmt.Errorf("%w: queue pair number %#x: 2 to 0xfffffe are possible", ErrEndpoint, e.QPN)
	case e.PSN > max24:
		return fmt.Errorf("%w: PSN %#x has more than 24 bits", ErrEndpoint, e.PSN)
	case !e.GID.IsValid() || e.GID.IsUnspecified():
		return fmt.Errorf("%w: it has no address", ErrEndpoint)
	case e.GID.IsMulticast():
		return fmt.Errorf("%w: %s is a multicast address", ErrEndpoint, e.GID)
	}
	return nil
}

// Local is the endpoint of an own queue pair at the GID of index, with a random
// first PSN. Region may be nil when the peer does no RDMA.
func Local(qp *verbs.QP, gid verbs.GIDEntry, region *verbs.MR) Endpoint {
	e := Endpoint{QPN: qp.Num(), PSN: rand.Uint32() & max24, GID: netip.AddrFrom16(gid.GID).Unmap()}
	if region != nil {
		e.Addr, e.RKey, e.Len = region.Addr(), region.RKey(), uint64(region.Len())
	}
	return e
}
