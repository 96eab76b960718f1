// Package pcapng writes and reads captures in the pcapng format
// (draft-ietf-opsawg-pcapng), as Wireshark does. Unlike the classic format, which
// package pcap reads, it names the interface and the direction of each packet and
// takes comments.
//
//	w, err := pcapng.NewWriter(file)
//	eth0, err := w.AddInterface("eth0", pcapng.LinkEthernet)
//	err = w.Write(&pcapng.Packet{Interface: eth0, Time: time.Now(), Data: frame, Direction: pcapng.Outbound})
package pcapng

import (
	"errors"
	"time"
)

// LinkEthernet is the link type of interfaces whose packets are Ethernet frames.
const LinkEthernet = 1

// MaxBlock is the largest block, in bytes, that is written or read: more than any
// frame with its comments, and little enough not to let a damaged file use up
// memory.
const MaxBlock = 1 << 20

var (
	// ErrFormat is returned for what is not a pcapng file, or of another major
	// version than 1.
	ErrFormat = errors.New("pcapng: not a pcapng file")
	// ErrCorrupt is returned for a block that cannot be: it ends early, is larger
	// than MaxBlock, or names an interface that there is not.
	ErrCorrupt = errors.New("pcapng: damaged block")
	// ErrPacket is returned by Write for a packet that the format has no place for.
	ErrPacket = errors.New("pcapng: packet cannot be written")
)

// Direction is which way a packet went.
type Direction uint8

// Directions.
const (
	Unknown  Direction = 0
	Inbound  Direction = 1
	Outbound Direction = 2
)

// String is "unknown", "inbound" or "outbound".
func (d Direction) String() string {
	switch d {
	case Inbound:
		return "inbound"
	case Outbound:
		return "outbound"
	default:
		return "unknown"
	}
}

// Interface is what packets were captured at.
type Interface struct {
	Name     string // empty: the file does not say
	LinkType uint16
}

// Packet is one captured packet.
type Packet struct {
	Interface int // in the order of AddInterface, from 0
	Time      time.Time
	Data      []byte
	Len       int // bytes on the wire; more than len(Data) if the capture cut it, 0 for len(Data) when written
	Direction Direction
	Comments  []string
}

// Block types.
const (
	blockSection   = 0x0A0D0D0A
	blockInterface = 1
	blockPacket    = 6 // enhanced
)

// Option codes, of any block and of one.
const (
	optEnd       = 0
	optComment   = 1
	optIfName    = 2
	optIfTSResol = 9
	optEPBFlags  = 2
)

const (
	byteOrderMagic = 0x1A2B3C4D
	blockOverhead  = 12 // type, length, length again
	sectionLen     = blockOverhead + 16
	interfaceLen   = 8
	packetLen      = 20
)

// pad4 is n rounded up to 32 bits.
func pad4(n int) int { return (n + 3) &^ 3 }
