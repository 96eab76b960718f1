package wire

// MulticastMAC is the link-layer address of a multicast group: 01:00:5e and the
// low 23 bits of an IPv4 group (RFC 1112), 33:33 and the last four bytes of an
// IPv6 group (RFC 2464).
func MulticastMAC(group *[16]byte) [6]byte {
	if isMapped(group) {
		return [6]byte{0x01, 0x00, 0x5E, group[13] & 0x7F, group[14], group[15]}
	}
	return [6]byte{0x33, 0x33, group[12], group[13], group[14], group[15]}
}
