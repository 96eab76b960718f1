package simnet

import (
	"encoding/binary"

	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// setCE sets the ECN field of an Ethernet frame to CE, as a switch does whose
// queue grows, and keeps the IPv4 checksum right. It reports false, and changes
// nothing, when the frame is not IP or its sender takes no marks (RFC 3168, 5).
func setCE(frame []byte) bool {
	if len(frame) < wire.EthernetLen {
		return false
	}
	l3, typ := wire.EthernetLen, wire.EthernetAt(frame).EtherType()
	for (typ == wire.EtherTypeVLAN || typ == wire.EtherTypeQinQ) && len(frame) >= l3+wire.VLANLen {
		typ = binary.BigEndian.Uint16(frame[l3+2:])
		l3 += wire.VLANLen
	}
	switch packet := frame[l3:]; {
	case typ == wire.EtherTypeIPv4 && len(packet) >= wire.IPv4Len:
		ip := wire.IPv4At(packet)
		if ip.TOS()&wire.CE == 0 {
			return false
		}
		ip.SetTOS(ip.TOS() | wire.CE)
		ip.SetChecksum(ip.ComputeChecksum())
	case typ == wire.EtherTypeIPv6 && len(packet) >= wire.IPv6Len:
		ip := wire.IPv6At(packet)
		if ip.TrafficClass()&wire.CE == 0 {
			return false
		}
		ip.SetTrafficClass(ip.TrafficClass() | wire.CE)
	default:
		return false
	}
	return true
}
