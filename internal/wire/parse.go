package wire

import "encoding/binary"

// Parse takes an Ethernet frame apart that arrives in one or more segments,
// and checks all that can be checked without a queue pair, the ICRC last. On
// Accept every field of p is set; on another result p is of no use.
//
// All headers must lie in the first segment, which Parse writes to and
// restores (see ICRC). Bytes after the packet's end, such as Ethernet padding,
// are ignored: lengths come from IP and UDP.
func (p *Packet) Parse(segs ...[]byte) DropReason {
	if r := p.ParseHeaders(segs...); r != Accept {
		return r
	}
	icrc := ICRC(segs[0], p.l3, p.covered, segs[1:]...)
	return p.judge(icrc, segs)
}

// ParseReadOnly is Parse for frames that must not be written to.
func (p *Packet) ParseReadOnly(segs ...[]byte) DropReason {
	if r := p.ParseHeaders(segs...); r != Accept {
		return r
	}
	icrc := ICRCReadOnly(segs[0][p.l3:], p.covered, segs[1:]...)
	return p.judge(icrc, segs)
}

// judge compares the ICRC computed with the one in the frame.
func (p *Packet) judge(icrc uint32, segs [][]byte) DropReason {
	got := le32At(segs, p.l3+p.covered)
	if got == icrc {
		p.ICRC = ICRCStandard
		return Accept
	}
	if p.Opcode == RC|Flush && got == ICRCFlushRXE(icrc, p.BTH) {
		p.ICRC = ICRCRXE
		return Accept
	}
	return DropICRC
}

// ParseHeaders is Parse without the ICRC check: p.ICRC is ICRCBad and nothing
// that it says may be believed. It does not write to the frame.
func (p *Packet) ParseHeaders(segs ...[]byte) DropReason {
	if len(segs) == 0 || len(segs) > MaxSegments {
		return DropSegments
	}
	first, total := segs[0], 0
	for _, s := range segs {
		total += len(s)
	}
	p.ICRC = ICRCBad

	l3, etherType, r := p.parseLink(first, total)
	if r != Accept {
		return r
	}
	var l4, ipEnd int
	switch etherType {
	case EtherTypeIPv4:
		l4, ipEnd, r = p.parseIPv4(first, l3, total)
	case EtherTypeIPv6:
		l4, ipEnd, r = p.parseIPv6(first, l3, total)
	default:
		return DropNotIP
	}
	if r != Accept {
		return r
	}
	p.l3, p.IP = l3, first[l3:l4:l4]

	if len(first) < l4+UDPLen+BTHLen {
		return short(l4+UDPLen+BTHLen, total)
	}
	udp := UDPAt(first[l4:])
	if udp.DstPort() != UDPPort {
		return DropNotRoCE
	}
	p.UDPSrcPort = udp.SrcPort()
	// Both lengths are covered by the ICRC, and no sender has a reason to let
	// them disagree.
	if l4+udp.Length() != ipEnd {
		return DropLength
	}
	if total < ipEnd {
		return DropTruncated
	}
	return p.parseTransport(segs, l4+UDPLen, ipEnd)
}

// parseTransport checks the BTH at offset off of a frame whose packet ends,
// ICRC included, at offset end, and finds the payload.
func (p *Packet) parseTransport(segs [][]byte, off, end int) DropReason {
	first := segs[0]
	bth := BTHAt(first[off:])
	if bth.TVer() != 0 {
		return DropTVer
	}
	info := bth.Opcode().Info()
	if info == nil {
		return DropOpcode
	}
	if bth.DestQP() == 0 {
		return DropDestQP
	}
	start := off + info.HeaderLen
	n := end - ICRCLen - start // payload and pad
	if n < 0 || n&3 != 0 {
		return DropLength
	}
	if len(first) < start {
		return DropSplit
	}
	if n -= int(bth.PadCnt()); n < 0 {
		return DropPad
	}
	p.BTH, p.Info, p.Opcode = first[off:start:start], info, info.Opcode
	p.covered = end - ICRCLen - p.l3
	p.PayloadLen = n
	if s := first[start:]; n <= len(s) {
		p.Payload[0] = s[:n:n]
		p.NPayload = int(bit(n != 0))
		return Accept
	}
	p.gatherPayload(segs, start, n)
	return Accept
}

// gatherPayload collects the n payload bytes that start at an offset of the
// first segment and go on in others.
func (p *Packet) gatherPayload(segs [][]byte, start, n int) {
	count := 0
	for i, s := range segs {
		if i == 0 {
			s = s[start:]
		}
		if len(s) > n {
			s = s[:n:n]
		}
		if len(s) != 0 {
			p.Payload[count] = s
			count++
		}
		n -= len(s)
	}
	p.NPayload = count
}

// parseLink reads the Ethernet header and up to two VLAN tags.
func (p *Packet) parseLink(first []byte, total int) (l3 int, etherType uint16, r DropReason) {
	if len(first) < EthernetLen {
		return 0, 0, short(EthernetLen, total)
	}
	eth := EthernetAt(first)
	p.DstMAC, p.SrcMAC = eth.DstMAC(), eth.SrcMAC()
	p.VLAN, p.OuterVLAN, p.Priority = 0, 0, 0
	l3, etherType = EthernetLen, eth.EtherType()
	for tags := 0; tags < 2 && (etherType == EtherTypeVLAN || etherType == EtherTypeQinQ); tags++ {
		if len(first) < l3+VLANLen {
			return 0, 0, short(l3+VLANLen, total)
		}
		tag := VLANAt(first[l3:])
		p.OuterVLAN, p.VLAN, p.Priority = p.VLAN, tag.VID(), tag.PCP()
		etherType = tag.EtherType()
		l3 += VLANLen
	}
	return l3, etherType, Accept
}

// parseIPv4 reads the header at l3 and returns the offsets of what follows it
// and of the packet's end. The header checksum is not looked at: all that it
// protects and the ICRC does not is TOS and TTL.
func (p *Packet) parseIPv4(first []byte, l3, total int) (l4, end int, r DropReason) {
	if len(first) < l3+IPv4Len {
		return 0, 0, short(l3+IPv4Len, total)
	}
	ip := IPv4At(first[l3:])
	switch {
	case ip.Version() != 4 || ip.IHL() != 5:
		return 0, 0, DropIPHeader
	case ip.IsFragment():
		return 0, 0, DropFragment
	case ip.Protocol() != ProtoUDP:
		return 0, 0, DropNotRoCE
	}
	p.IPv6, p.TOS, p.TTL, p.FlowLabel = false, ip.TOS(), ip.TTL(), 0
	putMapped(&p.SrcGID, ip.Src())
	putMapped(&p.DstGID, ip.Dst())
	return l3 + IPv4Len, l3 + ip.TotalLen(), Accept
}

// parseIPv6 is parseIPv4 for IPv6.
func (p *Packet) parseIPv6(first []byte, l3, total int) (l4, end int, r DropReason) {
	if len(first) < l3+IPv6Len {
		return 0, 0, short(l3+IPv6Len, total)
	}
	ip := IPv6At(first[l3:])
	switch {
	case ip.Version() != 6:
		return 0, 0, DropIPHeader
	case ip.NextHeader() == nextHeaderFragment:
		return 0, 0, DropFragment
	case ip.NextHeader() != ProtoUDP:
		return 0, 0, DropNotRoCE
	}
	p.IPv6, p.TOS, p.TTL, p.FlowLabel = true, ip.TrafficClass(), ip.HopLimit(), ip.FlowLabel()
	p.SrcGID, p.DstGID = ip.Src(), ip.Dst()
	return l3 + IPv6Len, l3 + IPv6Len + ip.PayloadLen(), Accept
}

// short tells a frame that ends before byte need from one that only continues
// in its next segment.
func short(need, total int) DropReason {
	if total < need {
		return DropTruncated
	}
	return DropSplit
}

// le32At reads four bytes at an offset that may lie in any segment and may
// straddle two.
func le32At(segs [][]byte, off int) uint32 {
	i := 0
	for off >= len(segs[i]) {
		off -= len(segs[i])
		i++
	}
	if s := segs[i][off:]; len(s) >= 4 {
		return binary.LittleEndian.Uint32(s)
	}
	var v uint32
	for n := 0; n < 32; n += 8 {
		for off == len(segs[i]) {
			off = 0
			i++
		}
		v |= uint32(segs[i][off]) << n
		off++
	}
	return v
}

// putMapped writes ::ffff:a.b.c.d.
func putMapped(gid *[16]byte, a [4]byte) {
	binary.BigEndian.PutUint64(gid[0:8], 0)
	binary.BigEndian.PutUint64(gid[8:16], 0xFFFF<<32|uint64(binary.BigEndian.Uint32(a[:])))
}
