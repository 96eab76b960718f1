package cmfsm

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
)

// QPAttr are the attributes for the queue pair of a connection, from its
// CONNECT_REQUEST or CONNECT_RESPONSE on (rdma_init_qp_attr). Before Accept of a
// request, p is what will be accepted; else it may be nil.
func (m *Machine) QPAttr(id ID, p *ConnParam) (QPAttr, error) {
	c, err := m.find(id, StateREQRcvd, StateREPSent, StateMRAREPRcvd, StateREPRcvd, StateEstablished)
	if err != nil {
		return QPAttr{}, err
	}
	responder, initiator := c.responder, c.initiator
	if c.state == StateREQRcvd && p != nil {
		if p.ResponderResources != MaxResources && p.ResponderResources > m.cfg.MaxResponderResources {
			return QPAttr{}, fmt.Errorf("%w: %d responder resources, the device has %d", ErrInvalid, p.ResponderResources, m.cfg.MaxResponderResources)
		}
		responder, initiator = m.negotiated(c, p)
	}
	access := ibv.AccessRemoteWrite
	if responder != 0 {
		access |= ibv.AccessRemoteRead | ibv.AccessRemoteAtomic
	}
	return QPAttr{
		QPAttr: ibv.QPAttr{
			PathMTU: c.mtu, DestQPN: c.peerQPN, RQPSN: uint32(c.rqPSN), SQPSN: uint32(c.sqPSN), AccessFlags: access, AV: c.av(),
			MaxRDAtomic: initiator, MaxDestRDAtomic: responder, MinRNRTimer: c.opt.MinRNRTimer, Port: 1,
			Timeout: c.timeout(), RetryCnt: c.retryCount, RNRRetry: c.rnrRetryCount,
		},
		LocalGID: ibv.GIDOf(c.path.Local), VLAN: c.path.VLAN, Scope: ibv.Scope(c.path.Local),
	}, nil
}

// av is the path of the queue pair's packets.
func (c *conn) av() ibv.AddressVector {
	return ibv.AddressVector{
		DGID: ibv.GIDOf(c.path.Remote), FlowLabel: c.flowLabel, HopLimit: c.hopLimit,
		TrafficClass: c.path.TrafficClass, SL: c.path.SL, Port: 1,
	}
}
