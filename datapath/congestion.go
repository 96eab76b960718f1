package datapath

import (
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/internal/wire"
)

const (
	ecnMask = 3
	ect0    = 2 // ECN field of who takes marks (RFC 3168)
	// cnpTOS is DSCP 48, network control, and ECT(0), as adapters send CNPs.
	cnpTOS = 48<<2 | ect0

	megabit = 1_000_000
	// unknownRate is taken for the rate of a link that tells none, as virtual
	// ones do, in bit/s.
	unknownRate = 10_000 * megabit
)

// dcqcn are the parameters of a queue pair that is made with c, nil when that
// does not react to congestion.
func (d *Device) dcqcn(c ibv.Congestion) *transport.DCQCN {
	if c == ibv.CongestionDefault {
		c = d.opts.Congestion
	}
	if c != ibv.CongestionDCQCN {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	rate := d.opts.LineRate
	switch {
	case rate != 0:
	case d.link.speed != 0:
		rate = int64(d.link.speed) * megabit
	default:
		rate = unknownRate
	}
	if d.reaction == nil || d.reaction.LineRate != rate {
		p := transport.DefaultDCQCN(rate)
		d.reaction = &p
	}
	return d.reaction
}

// setTOS gives a frame whose IP header is at l3 another traffic class, which the
// ICRC does not cover.
func setTOS(frame []byte, l3 int, v6 bool, tos uint8) {
	if v6 {
		wire.IPv6At(frame[l3:]).SetTrafficClass(tos)
		return
	}
	ip := wire.IPv4At(frame[l3:])
	ip.SetTOS(tos)
	ip.SetChecksum(ip.ComputeChecksum())
}
