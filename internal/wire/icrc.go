package wire

import (
	"encoding/binary"
	"hash/crc32"
)

// The invariant CRC (IBTA vol. 1, 7.8.1 and annex A17): CRC-32 as in Ethernet,
// over eight bytes of ones that stand for the InfiniBand link header, then
// from the IP header to the last pad byte, with every field that a router or
// the network stack may change replaced by ones. On the wire its least
// significant byte comes first.

// lrhLen is the size of the missing link header.
const lrhLen = 8

// updateCRC is CRC-32 (IEEE) as crc32.Update computes it: complemented on
// entry and exit. It is a variable so that a faster routine can take its place.
var updateCRC = func(crc uint32, b []byte) uint32 { return crc32.Update(crc, crc32.IEEETable, b) }

// Bytes over which the in-place forms write ones: link header, IP, UDP, BTH.
type (
	maskedIPv4 [lrhLen + IPv4Len + UDPLen + BTHLen]byte
	maskedIPv6 [lrhLen + IPv6Len + UDPLen + BTHLen]byte
)

// ICRC is the ICRC of the n bytes that start at first[l3], which is an IPv4
// header without options or an IPv6 header without extensions, and go on in
// rest: the length is that of the packet without its ICRC, and bytes beyond it
// are not looked at. If there are fewer than n bytes, it is the ICRC of those.
//
// It writes to first while it runs, and leaves every byte as it was: the eight
// bytes before l3 and the headers up to the end of the BTH, all of which must
// lie in first (l3 is at least 8), must be writable, and must be nobody else's
// meanwhile. ICRCReadOnly is for buffers that are not.
func ICRC(first []byte, l3, n int, rest ...[]byte) uint32 {
	if first[l3]>>4 == 4 {
		return icrcIPv4((*maskedIPv4)(first[l3-lrhLen:]), first[l3-lrhLen:], n+lrhLen, rest)
	}
	return icrcIPv6((*maskedIPv6)(first[l3-lrhLen:]), first[l3-lrhLen:], n+lrhLen, rest)
}

// icrcIPv4 masks h, runs the CRC over b, which h is the start of, and rest,
// and takes the mask off.
func icrcIPv4(h *maskedIPv4, b []byte, n int, rest [][]byte) uint32 {
	le := binary.LittleEndian
	lrh := le.Uint64(h[0:8])
	tos := le.Uint32(h[8:12])
	ttl := le.Uint32(h[16:20])
	udp := le.Uint32(h[32:36])
	bth := h[40]

	le.PutUint64(h[0:8], ^uint64(0))
	le.PutUint32(h[8:12], tos|0x0000FF00)  // DSCP and ECN
	le.PutUint32(h[16:20], ttl|0xFFFF00FF) // TTL, header checksum
	le.PutUint32(h[32:36], udp|0xFFFF0000) // UDP checksum
	h[40] = 0xFF                           // FECN, BECN, reserved

	crc := crcPieces(b, n, rest)

	le.PutUint64(h[0:8], lrh)
	le.PutUint32(h[8:12], tos)
	le.PutUint32(h[16:20], ttl)
	le.PutUint32(h[32:36], udp)
	h[40] = bth
	return crc
}

// icrcIPv6 is icrcIPv4 for IPv6.
func icrcIPv6(h *maskedIPv6, b []byte, n int, rest [][]byte) uint32 {
	le := binary.LittleEndian
	lrh := le.Uint64(h[0:8])
	ver := le.Uint32(h[8:12])
	hop := le.Uint32(h[12:16])
	udp := le.Uint32(h[52:56])
	bth := h[60]

	le.PutUint64(h[0:8], ^uint64(0))
	le.PutUint32(h[8:12], ver|0xFFFFFF0F)  // traffic class, flow label
	le.PutUint32(h[12:16], hop|0xFF000000) // hop limit
	le.PutUint32(h[52:56], udp|0xFFFF0000)
	h[60] = 0xFF

	crc := crcPieces(b, n, rest)

	le.PutUint64(h[0:8], lrh)
	le.PutUint32(h[8:12], ver)
	le.PutUint32(h[12:16], hop)
	le.PutUint32(h[52:56], udp)
	h[60] = bth
	return crc
}

// crcPieces runs the CRC over the first n bytes of b and rest together.
func crcPieces(b []byte, n int, rest [][]byte) uint32 {
	if n <= len(b) {
		return updateCRC(0, b[:n])
	}
	return crcRest(updateCRC(0, b), n-len(b), rest)
}

// crcRest continues crc over the first n bytes of rest.
func crcRest(crc uint32, n int, rest [][]byte) uint32 {
	for _, b := range rest {
		if n <= len(b) {
			return updateCRC(crc, b[:n])
		}
		crc = updateCRC(crc, b)
		n -= len(b)
	}
	return crc
}

// ICRCFlushRXE is the ICRC that Linux's rdma_rxe gives a FLUSH, and the only
// one it accepts for one: the standard ICRC carried on over the packet's BTH,
// FETH and RETH as they are, 32 bytes, because rxe's FLUSH has no payload
// offset and its payload therefore starts at the BTH.
func ICRCFlushRXE(icrc uint32, headers []byte) uint32 {
	return updateCRC(icrc, headers[:BTHLen+FETHLen+RETHLen])
}

// PutICRC writes the ICRC into the last four bytes of frame, an Ethernet frame
// whose IP header is at l3 and whose every other byte is final.
func PutICRC(frame []byte, l3 int) {
	end := len(frame) - ICRCLen
	binary.LittleEndian.PutUint32(frame[end:], ICRC(frame, l3, end-l3))
}
