// Package icrccheck judges the ICRC of captured RoCEv2 frames. It is a second
// opinion for tests: it shares no code with the packages that it judges, walks
// the frame on its own, and uses a CRC table of its own.
package icrccheck

import (
	"encoding/binary"
	"errors"
	"fmt"
)

var (
	// ErrNotRoCE is returned for a frame without a whole RoCEv2 packet: not
	// UDP to port 4791 over IPv4 or IPv6, a fragment, or cut short.
	ErrNotRoCE = errors.New("icrccheck: no RoCEv2 packet")
	// ErrMismatch is returned for a wrong ICRC.
	ErrMismatch = errors.New("icrccheck: wrong ICRC")
	// ErrRXEFlush is returned for a FLUSH with the ICRC that rdma_rxe gives
	// it, which is not the specification's. rdma_rxe accepts no other.
	ErrRXEFlush = errors.New("icrccheck: FLUSH with the ICRC of rdma_rxe")
)

const flushOpcode = 0x1C

// table has the CRC of each byte value; the polynomial is Ethernet's,
// 0x04C11DB7, bit-reversed.
var table = func() (t [256]uint32) {
	for i := range t {
		c := uint32(i)
		for range 8 {
			if c&1 == 1 {
				c = c>>1 ^ 0xEDB88320
			} else {
				c >>= 1
			}
		}
		t[i] = c
	}
	return t
}()

func feed(c uint32, data ...byte) uint32 {
	for _, b := range data {
		c = table[byte(c)^b] ^ c>>8
	}
	return c
}

// Check returns nil when the Ethernet frame holds a RoCEv2 packet whose ICRC
// is the specification's (IBTA annex A17). It does not write to frame.
func Check(frame []byte) error {
	ip, bth, err := find(frame)
	if err != nil {
		return err
	}
	end := len(ip) - 4
	c := uint32(0xFFFFFFFF)
	c = feed(c, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF)
	for i, b := range ip[:end] {
		c = feed(c, b|variant(ip[0]>>4, i, bth))
	}
	got := binary.LittleEndian.Uint32(ip[end:])
	if got == ^c {
		return nil
	}
	if ip[bth] == flushOpcode {
		if again := feed(c, ip[bth:end]...); got == ^again {
			return ErrRXEFlush
		}
	}
	return fmt.Errorf("%w: opcode %#02x has %#08x, want %#08x", ErrMismatch, ip[bth], got, ^c)
}

// variant has ones for the bits of byte i of the packet that may change on the
// way: version is that of IP, bth where the BTH starts.
func variant(version byte, i, bth int) byte {
	switch i {
	case bth - 2, bth - 1, bth + 4: // UDP checksum; FECN, BECN, reserved
		return 0xFF
	}
	if version == 4 {
		switch i {
		case 1, 8, 10, 11: // type of service, time to live, header checksum
			return 0xFF
		}
		return 0
	}
	switch i {
	case 0: // the version stays
		return 0x0F
	case 1, 2, 3, 7: // traffic class, flow label, hop limit
		return 0xFF
	}
	return 0
}

// find returns the IP packet, its length as UDP says, and the BTH's offset.
func find(frame []byte) (ip []byte, bth int, err error) {
	at := 12
	for {
		if len(frame) < at+2 {
			return nil, 0, fmt.Errorf("%w: Ethernet header cut short", ErrNotRoCE)
		}
		kind := binary.BigEndian.Uint16(frame[at:])
		at += 2
		if kind != 0x8100 && kind != 0x88A8 {
			ip = frame[at:]
			bth, err = udpPayload(kind, ip)
			break
		}
		at += 2
	}
	if err != nil {
		return nil, 0, err
	}
	length := bth - 8 + int(binary.BigEndian.Uint16(ip[bth-4:]))
	if length > len(ip) || length < bth+16 {
		return nil, 0, fmt.Errorf("%w: UDP says %d bytes from the IP header on, the frame has %d", ErrNotRoCE, length, len(ip))
	}
	return ip[:length], bth, nil
}

// udpPayload is the offset in ip of what follows a UDP header to port 4791.
func udpPayload(kind uint16, ip []byte) (int, error) {
	var protocol, size int
	switch {
	case kind == 0x0800 && len(ip) >= 20 && ip[0] == 0x45:
		if binary.BigEndian.Uint16(ip[6:])&0x3FFF != 0 {
			return 0, fmt.Errorf("%w: fragment", ErrNotRoCE)
		}
		protocol, size = 9, 20
	case kind == 0x86DD && len(ip) >= 40 && ip[0]>>4 == 6:
		protocol, size = 6, 40
	default:
		return 0, fmt.Errorf("%w: type %#04x without a plain IP header", ErrNotRoCE, kind)
	}
	if len(ip) < size+8 || ip[protocol] != 17 || binary.BigEndian.Uint16(ip[size+2:]) != 4791 {
		return 0, fmt.Errorf("%w: not UDP to port 4791", ErrNotRoCE)
	}
	return size + 8, nil
}
