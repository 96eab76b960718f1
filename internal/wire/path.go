package wire

import (
	"encoding/binary"
	"errors"
)

// MaxPathLen is the largest Path.Len: Ethernet, one tag, IPv6, UDP.
const MaxPathLen = EthernetLen + VLANLen + IPv6Len + UDPLen

// DefaultTTL is used where PathFields.TTL is 0.
const DefaultTTL = 64

// ErrMixedFamilies is returned for a path between an IPv4-mapped and an IPv6
// address.
var ErrMixedFamilies = errors.New("wire: source and destination GID are of different address families: use GIDs of the same family on both ends")

// PathFields is what all frames to one peer have in common.
type PathFields struct {
	DstMAC, SrcMAC [6]byte
	Tagged         bool     // put an 802.1Q tag
	VLAN           uint16   // its VLAN, 12 bits; 0 for a priority tag
	PCP            uint8    // its priority, 0 to 7
	SrcGID, DstGID [16]byte // both ::ffff:a.b.c.d for IPv4, else IPv6
	TOS            uint8    // DSCP and ECN, or traffic class
	TTL            uint8    // or hop limit; 0 for DefaultTTL
	FlowLabel      uint32   // 20 bits, IPv6 only
	UDPSrcPort     uint16
}

// Path is a frame's headers up to the UDP header, laid out once and copied in
// front of each packet. Set makes it; after that it is read-only and may be
// shared.
type Path struct {
	hdr [MaxPathLen]byte
	len uint8
	l3  uint8
	v6  bool
	sum uint32 // IPv4: sum of the header's words without length, ID, checksum
}

// Set lays out the headers.
func (t *Path) Set(f *PathFields) error {
	src4, dst4 := isMapped(&f.SrcGID), isMapped(&f.DstGID)
	if src4 != dst4 {
		return ErrMixedFamilies
	}
	*t = Path{v6: !src4, l3: EthernetLen}
	ipType, ttl := uint16(EtherTypeIPv4), f.TTL
	if t.v6 {
		ipType = EtherTypeIPv6
	}
	if ttl == 0 {
		ttl = DefaultTTL
	}
	eth := EthernetFields{DstMAC: f.DstMAC, SrcMAC: f.SrcMAC, EtherType: ipType}
	if f.Tagged {
		eth.EtherType = EtherTypeVLAN
		VLANAt(t.hdr[EthernetLen:]).Encode(&VLANFields{PCP: f.PCP, VID: f.VLAN, EtherType: ipType})
		t.l3 += VLANLen
	}
	EthernetAt(t.hdr[:]).Encode(&eth)

	l3, l4 := t.hdr[t.l3:], int(t.l3)
	if t.v6 {
		IPv6At(l3).Encode(&IPv6Fields{
			TrafficClass: f.TOS, FlowLabel: f.FlowLabel, NextHeader: ProtoUDP, HopLimit: ttl, Src: f.SrcGID, Dst: f.DstGID,
		})
		l4 += IPv6Len
	} else {
		ip := IPv4At(l3)
		ip.Encode(&IPv4Fields{
			TOS: f.TOS, DF: true, TTL: ttl, Protocol: ProtoUDP, Src: [4]byte(f.SrcGID[12:]), Dst: [4]byte(f.DstGID[12:]),
		})
		ip.SetChecksum(0)
		t.sum = ip.sum()
		l4 += IPv4Len
	}
	UDPAt(t.hdr[l4:]).Encode(&UDPFields{SrcPort: f.UDPSrcPort, DstPort: UDPPort})
	t.len = uint8(l4 + UDPLen)
	return nil
}

// Len is the number of bytes that Put writes: 42, or 62 for IPv6, and 4 more
// with a tag.
func (t *Path) Len() int { return int(t.len) }

// L3 is the offset of the IP header, 14 or 18, as ICRC wants it.
func (t *Path) L3() int { return int(t.l3) }

// IPv6 tells IPv6 from IPv4.
func (t *Path) IPv6() bool { return t.v6 }

// Put writes the headers for a packet of ibLen bytes, counted from the BTH to
// the end of the ICRC, 16 to 65507, to the start of dst, and returns Len. The
// packet may be sent with any ID, which counts on IPv4 only; DF is set.
func (t *Path) Put(dst []byte, ibLen int, ipID uint16) int {
	n := int(t.len)
	dst = dst[:n]
	copy(dst, t.hdr[:n])
	be := binary.BigEndian
	be.PutUint16(dst[n-4:n-2], uint16(UDPLen+ibLen))
	ip := dst[t.l3:]
	if t.v6 {
		be.PutUint16(ip[4:6], uint16(UDPLen+ibLen))
		return n
	}
	total := uint16(IPv4Len + UDPLen + ibLen)
	_ = ip[IPv4Len-1]
	be.PutUint16(ip[2:4], total)
	be.PutUint16(ip[4:6], ipID)
	be.PutUint16(ip[10:12], foldChecksum(t.sum+uint32(total)+uint32(ipID)))
	return n
}

// isMapped says that gid is an IPv4-mapped address.
func isMapped(gid *[16]byte) bool {
	return binary.BigEndian.Uint64(gid[0:8]) == 0 && binary.BigEndian.Uint32(gid[8:12]) == 0xFFFF
}
