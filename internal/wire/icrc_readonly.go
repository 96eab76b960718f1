package wire

import "hash/crc32"

// icrcMaskIPv4 has ones where the ICRC replaces bits of IP, UDP and BTH.
var icrcMaskIPv4 = [IPv4Len + UDPLen + BTHLen]byte{
	1: 0xFF, 8: 0xFF, 10: 0xFF, 11: 0xFF, // TOS, TTL, checksum
	26: 0xFF, 27: 0xFF, // UDP checksum
	32: 0xFF, // FECN, BECN, reserved
}

var icrcMaskIPv6 = [IPv6Len + UDPLen + BTHLen]byte{
	0: 0x0F, 1: 0xFF, 2: 0xFF, 3: 0xFF, 7: 0xFF, // class, flow label, hop limit
	46: 0xFF, 47: 0xFF,
	52: 0xFF,
}

// icrcAfterLRH is the CRC register, not complemented, after eight bytes 0xFF.
const icrcAfterLRH = 0xDEBB20E3

// ICRCReadOnly is ICRC for a buffer that must not be written to, even for a
// moment: a captured packet, or memory that others read. ip starts at the IP
// header and need only reach to the end of the BTH. It is slower for the 40 or
// 60 bytes of headers, which it takes one at a time.
func ICRCReadOnly(ip []byte, n int, rest ...[]byte) uint32 {
	mask := icrcMaskIPv6[:]
	if ip[0]>>4 == 4 {
		mask = icrcMaskIPv4[:]
	}
	c := uint32(icrcAfterLRH)
	for i, b := range ip[:len(mask)] {
		c = crc32.IEEETable[byte(c)^(b|mask[i])] ^ c>>8
	}
	c, ip, n = ^c, ip[len(mask):], n-len(mask)
	if n <= len(ip) {
		return updateCRC(c, ip[:n])
	}
	return crcRest(updateCRC(c, ip), n-len(ip), rest)
}
