package bpf

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// model is the steering decision once more, in Go and in the order of the rules
// rather than of the bytes. It knows what loadForUs registers.
func model(frame []byte) Verdict {
	be := binary.BigEndian
	at := 12
	for range 2 {
		if len(frame) < at+2 {
			return VerdictPassTruncated
		}
		if t := be.Uint16(frame[at:]); t != 0x8100 && t != 0x88a8 {
			break
		}
		at += tagSize
	}
	if len(frame) < at+2 {
		return VerdictPassTruncated
	}
	ip := frame[at+2:]
	switch be.Uint16(frame[at:]) {
	case 0x0800:
		if len(ip) < ipv4Size {
			return VerdictPassTruncated
		}
		version, words := ip[0]>>4, int(ip[0]&15)
		switch {
		case version != 4 || words < 5:
			return VerdictPassIPHeader
		case words > 5:
			return VerdictPassIPOptions
		case be.Uint16(ip[6:])&^0x4000&0x7fff != 0:
			return VerdictPassFragment
		case ip[9] != 17:
			return VerdictPassProtocol
		}
		return modelUDP(ip[ipv4Size:], int(be.Uint16(ip[2:]))-ipv4Size, netip.AddrFrom4([4]byte(ip[16:])))
	case 0x86dd:
		if len(ip) < ipv6Size {
			return VerdictPassTruncated
		}
		switch {
		case ip[0]>>4 != 6:
			return VerdictPassIPHeader
		case ip[6] != 17:
			return VerdictPassProtocol
		}
		return modelUDP(ip[ipv6Size:], int(be.Uint16(ip[4:])), netip.AddrFrom16([16]byte(ip[24:])))
	default:
		return VerdictPassEthertype
	}
}

func modelUDP(udp []byte, ipPayload int, dst netip.Addr) Verdict {
	be := binary.BigEndian
	dst = dst.Unmap()
	if len(udp) < udpSize {
		return VerdictPassTruncated
	}
	length := int(be.Uint16(udp[4:]))
	switch {
	case be.Uint16(udp[2:]) != 4791:
		return VerdictPassPort
	case !slices.Contains([]netip.Addr{ours4, ours6, oursLocal, group4, group6}, dst):
		return VerdictPassAddress
	case length != ipPayload, length > len(udp), length < udpSize+bthSize+icrcSize, length%4 != 0:
		return VerdictDropLength
	case udp[udpSize+1]&15 != 0:
		return VerdictDropVersion
	}
	number := be.Uint32(udp[udpSize+4:]) & 0xffffff
	if dst.IsMulticast() {
		if number == 0xffffff {
			return VerdictRedirect
		}
		return VerdictDropQPN
	}
	if slices.Contains(registeredQPNs, number) {
		return VerdictRedirect
	}
	return VerdictDropQPN
}

// frames draws good frames with a few bytes changed and cut or grown at the end.
func frames() *rapid.Generator[[]byte] {
	return rapid.Custom(func(t *rapid.T) []byte {
		st := rapid.SampledFrom(stacks).Draw(t, "stack")
		changes := slices.Clone(st.tags)
		changes = append(changes,
			qpn(rapid.SampledFrom(append([]uint32{0, 0x12, 0xffffff}, registeredQPNs...)).Draw(t, "qpn")),
			payload(rapid.SampledFrom([]int{0, 1, 4, 64, 5000}).Draw(t, "payload")),
			padding(rapid.IntRange(0, 8).Draw(t, "padding")))
		if group := rapid.SampledFrom([]string{"", "", "239.1.2.3", "ff0e::1:2"}).Draw(t, "group"); group != "" {
			changes = append(changes, to(group))
		}
		frame := st.with(changes...)
		headers := min(len(frame), st.udp+udpSize+bthSize)
		for range rapid.IntRange(0, 3).Draw(t, "mutations") {
			at := rapid.IntRange(12, headers-1).Draw(t, "at")
			frame[at] = rapid.SampledFrom([]byte{0, 1, 4, 0x11, 0x40, 0x60, 0x81, 0xff, frame[at] ^ 1}).Draw(t, "byte")
		}
		return frame[:rapid.IntRange(ethernetSize, len(frame)).Draw(t, "length")]
	})
}

// TestModel compares the program with the model on random frames, in one piece
// and, where the kernel can do that, in several buffers.
func TestModel(t *testing.T) {
	s := loadForUs(t)
	splits := splitFrame(s, roce(), ethernetSize) == nil
	rapid.Check(t, func(rt *rapid.T) {
		frame := frames().Draw(rt, "frame")
		want := model(frame)
		if got := verdictOf(t, s, frame, nil); got != want {
			rt.Fatalf("verdict %v, the model says %v", got, want)
		}
		if !splits || len(frame) == ethernetSize || len(frame) > 3000 {
			return
		}
		n := rapid.IntRange(ethernetSize, len(frame)-1).Draw(rt, "linear")
		if got := verdictOf(t, s, frame, &xdpContext{DataEnd: uint32(n)}); got != want {
			rt.Fatalf("verdict %v with %d linear bytes, the model says %v", got, n, want)
		}
	})
}

// TestModelOnTable keeps the model itself right.
func TestModelOnTable(t *testing.T) {
	for _, c := range steerCases {
		if got := model(c.frame); got != c.want {
			t.Errorf("%s: the model says %v, want %v", c.name, got, c.want)
		}
	}
}
