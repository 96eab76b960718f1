package verbs

import "encoding/binary"

// GRHLen is the number of bytes in front of the payload in the receive buffer of
// a datagram (IBTA vol. 1, 11.4.2.1; annex A17): the IPv6 header of the packet,
// or 20 bytes without meaning and its IPv4 header.
const GRHLen = 40

const ipv4Len = 20

// InitAHFromWC is the address vector with which a received datagram is answered
// (ibv_init_ah_from_wc). wc is its completion, grh begins with the GRHLen bytes
// in front of its payload. Traffic class, flow label, service level and VLAN are those of the
// datagram; a mark of congestion on its way here is not sent back. One that was
// sent to a multicast group is answered from the first own address that can.
func (c *Context) InitAHFromWC(wc *WC, grh []byte) (AddressVector, error) {
	fail := func(err error) (AddressVector, error) {
		return AddressVector{}, opErr("make an address of a datagram", c.Name(), err)
	}
	switch {
	case wc == nil:
		return fail(invalid("no completion"))
	case wc.Status != WCSuccess || wc.Opcode&WCRecv == 0 || wc.Flags&WCGRH == 0:
		return fail(invalid("the completion is not that of a received datagram: status %s, %s, flags %s", wc.Status, wc.Opcode, wc.Flags))
	case len(grh) < GRHLen:
		return fail(invalid("%d bytes: the %d in front of the payload are needed", len(grh), GRHLen))
	}
	h, ok := parseGRH((*[GRHLen]byte)(grh))
	if !ok {
		return fail(invalid("the %d bytes have neither an IPv4 nor an IPv6 header in them", GRHLen))
	}
	all, err := c.GIDs()
	if err != nil {
		return AddressVector{}, err
	}
	group, best := h.dst.Addr().IsMulticast(), -1
	for i, e := range all {
		switch {
		case e.GID != h.dst && (!group || !answers(e.GID, h.src)):
		case e.VLAN == wc.VLAN && (best < 0 || all[best].VLAN != wc.VLAN):
			best = i
		case wc.VLAN == 0 && best < 0: // it may have had a tag
			best = i
		}
	}
	if best >= 0 {
		return AddressVector{
			DGID: h.src, SGIDIndex: all[best].Index, FlowLabel: h.label, TrafficClass: h.class, SL: wc.SL, Port: 1,
		}, nil
	}
	return fail(invalid("the datagram was sent to %s, which the interface does not have (any more): %s", h.dst.Addr(), listGIDs(all)))
}

// answers reports whether an own address can answer who sent to a group: it is
// of the same family, and link-local if that is.
func answers(own, peer GID) bool {
	return own.Is4() == peer.Is4() && own.Addr().IsLinkLocalUnicast() == peer.Addr().IsLinkLocalUnicast()
}

// ipHeader is what an answer needs of the IP header of a datagram.
type ipHeader struct {
	src, dst GID
	class    uint8
	label    uint32
}

// parseGRH tells IPv4 from IPv6 as Linux does: where both could be, the IPv4
// header's checksum decides.
func parseGRH(b *[GRHLen]byte) (h ipHeader, ok bool) {
	ip4 := (*[ipv4Len]byte)(b[ipv4Len:])
	six := b[0]>>4 == 6
	switch {
	case !six && ip4[0]>>4 == 4, six && ip4[0] == 0x45 && sumIPv4(ip4) == 0xFFFF:
		h.src, h.dst = mapped([4]byte(ip4[12:16])), mapped([4]byte(ip4[16:20]))
		h.class = ip4[1]
	case six:
		first := binary.BigEndian.Uint32(b[0:4])
		h.src, h.dst = GID(b[8:24]), GID(b[24:40])
		h.class, h.label = uint8(first>>20), first&0xFFFFF
	default:
		return h, false
	}
	if h.class&3 == 3 { // congestion experienced: it was ECN-capable
		h.class &^= 1
	}
	return h, true
}

// sumIPv4 is 0xFFFF for a header with a right checksum (RFC 1071).
func sumIPv4(b *[ipv4Len]byte) uint32 {
	var sum uint32
	for i := 0; i < ipv4Len; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i : i+2]))
	}
	for sum > 0xFFFF {
		sum = sum>>16 + sum&0xFFFF
	}
	return sum
}

// mapped is an IPv4 address as a GID.
func mapped(a [4]byte) GID { return GID{10: 0xFF, 11: 0xFF, 12: a[0], 13: a[1], 14: a[2], 15: a[3]} }
