package bpf

import (
	"encoding/binary"
	"net/netip"
)

// spec is a RoCEv2 frame in the making. Fields hold what goes on the wire; build
// fills in the lengths that nothing has set.
type spec struct {
	etherType   int // -1: the IP version's
	tags        []uint16
	src, dst    netip.Addr
	versionByte int // IPv4 version and header length, or IPv6 version and class; -1: right
	fragment    uint16
	protocol    uint8
	port        uint16
	totalLength int // of IPv4, or payload length of IPv6; -1: right
	udpLength   int // -1: right
	bthFlags    uint8
	bthByte4    uint8
	qpn         uint32
	payload     int // bytes between BTH and ICRC
	padding     int // bytes behind the ICRC
}

// change is one way in which a frame differs from a good one.
type change func(*spec)

// roce builds a frame to a registered IPv4 address and queue pair, with changes.
func roce(changes ...change) []byte {
	s := spec{
		etherType: -1, versionByte: -1, totalLength: -1, udpLength: -1,
		src: netip.MustParseAddr("10.0.0.9"), dst: ours4,
		protocol: 17, port: 4791, qpn: ourQPN, payload: 16,
	}
	for _, c := range changes {
		c(&s)
	}
	return s.build()
}

// roce6 is roce over IPv6.
func roce6(changes ...change) []byte {
	return roce(append([]change{to("2001:db8::1")}, changes...)...)
}

func to(address string) change { return func(s *spec) { s.dst = netip.MustParseAddr(address) } }

func etherType(t uint16) change { return func(s *spec) { s.etherType = int(t) } }

// tagged puts a VLAN tag behind those before it.
func tagged(tpid uint16) change { return func(s *spec) { s.tags = append(s.tags, tpid) } }

func versionByte(b uint8) change { return func(s *spec) { s.versionByte = int(b) } }

func fragment(field uint16) change { return func(s *spec) { s.fragment = field } }

func protocol(p uint8) change { return func(s *spec) { s.protocol = p } }

func port(p uint16) change { return func(s *spec) { s.port = p } }

func ipLength(n int) change { return func(s *spec) { s.totalLength = n } }

func udpLength(n int) change { return func(s *spec) { s.udpLength = n } }

func bthFlags(f uint8) change { return func(s *spec) { s.bthFlags = f } }

func bthByte4(b uint8) change { return func(s *spec) { s.bthByte4 = b } }

func qpn(n uint32) change { return func(s *spec) { s.qpn = n } }

func payload(n int) change { return func(s *spec) { s.payload = n } }

func padding(n int) change { return func(s *spec) { s.padding = n } }

// Sizes of the headers, and of the smallest packet behind UDP's.
const (
	ethernetSize, tagSize       = 14, 4
	ipv4Size, ipv6Size, udpSize = 20, 40, 8
	bthSize, icrcSize           = 12, 4
)

func (s *spec) build() []byte {
	be := binary.BigEndian
	f := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9}
	for i, tpid := range s.tags {
		f = be.AppendUint16(f, tpid)
		f = be.AppendUint16(f, uint16(100+i))
	}
	udp := udpSize + bthSize + s.payload + icrcSize
	if s.dst.Is4() {
		f = be.AppendUint16(f, or(s.etherType, 0x0800))
		f = append(f, byte(or(s.versionByte, 0x45)), 0)
		f = be.AppendUint16(f, or(s.totalLength, ipv4Size+udp))
		f = append(f, 0, 7)
		f = be.AppendUint16(f, s.fragment)
		f = append(f, 64, s.protocol, 0, 0)
		f = append(f, s.src.AsSlice()...)
		f = append(f, s.dst.AsSlice()...)
	} else {
		f = be.AppendUint16(f, or(s.etherType, 0x86dd))
		f = append(f, byte(or(s.versionByte, 0x60)), 0, 0, 0)
		f = be.AppendUint16(f, or(s.totalLength, udp))
		f = append(f, s.protocol, 64)
		f = append(f, netip.MustParseAddr("2001:db8::9").AsSlice()...)
		f = append(f, s.dst.AsSlice()...)
	}
	f = be.AppendUint16(f, 0xc000)
	f = be.AppendUint16(f, s.port)
	f = be.AppendUint16(f, or(s.udpLength, udp))
	f = append(f, 0, 0)
	f = append(f, 0x04, s.bthFlags, 0xff, 0xff)
	f = be.AppendUint32(f, uint32(s.bthByte4)<<24|s.qpn)
	f = append(f, 0x80, 0, 0, 1)
	return append(f, make([]byte, s.payload+icrcSize+s.padding)...)
}

// or is set unless that is -1, else right.
func or(set, right int) uint16 {
	if set >= 0 {
		return uint16(set)
	}
	return uint16(right)
}
