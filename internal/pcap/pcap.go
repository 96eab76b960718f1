// Package pcap reads classic libpcap capture files, as tcpdump -w makes them,
// of either byte order and with microseconds or nanoseconds.
package pcap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// LinkEthernet is the link type of files whose packets are Ethernet frames.
const LinkEthernet = 1

// MaxPacket is the largest packet that Next returns, in bytes: more than any
// frame, and little enough not to let a damaged file use up memory.
const MaxPacket = 1 << 18

var (
	// ErrFormat is returned for what is not a pcap file. A pcapng file is not
	// one: tshark -F pcap converts it.
	ErrFormat = errors.New("pcap: not a classic pcap file")
	// ErrCorrupt is returned for a record that cannot be: it ends early, or
	// says that it is larger than MaxPacket.
	ErrCorrupt = errors.New("pcap: damaged record")
)

const (
	magicMicro = 0xA1B2C3D4
	magicNano  = 0xA1B23C4D

	fileHeaderLen   = 24
	recordHeaderLen = 16
)

// Packet is one captured packet.
type Packet struct {
	Time time.Time // UTC
	Data []byte    // the caller's to keep
	Len  int       // bytes on the wire; more than len(Data) if the capture cut it
}

// Reader reads one file.
type Reader struct {
	LinkType uint32

	r     io.Reader
	order binary.ByteOrder
	unit  time.Duration
}

// NewReader reads the file's header.
func NewReader(r io.Reader) (*Reader, error) {
	var h [fileHeaderLen]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrFormat, err)
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		unit := time.Microsecond
		switch order.Uint32(h[0:4]) {
		case magicNano:
			unit = time.Nanosecond
		case magicMicro:
		default:
			continue
		}
		// The upper bits say whether and how long frame check sequences are.
		return &Reader{LinkType: order.Uint32(h[20:24]) & 0x0FFFFFFF, r: r, order: order, unit: unit}, nil
	}
	return nil, fmt.Errorf("%w: starts with % x", ErrFormat, h[0:4])
}

// Next reads the next packet; the error is io.EOF at the end of the file.
func (r *Reader) Next() (Packet, error) {
	var h [recordHeaderLen]byte
	if _, err := io.ReadFull(r.r, h[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return Packet{}, io.EOF
		}
		return Packet{}, fmt.Errorf("%w: header: %w", ErrCorrupt, err)
	}
	n := r.order.Uint32(h[8:12])
	if n > MaxPacket {
		return Packet{}, fmt.Errorf("%w: %d bytes, at most %d are possible", ErrCorrupt, n, MaxPacket)
	}
	p := Packet{
		Time: time.Unix(int64(r.order.Uint32(h[0:4])), int64(r.order.Uint32(h[4:8]))*int64(r.unit)).UTC(),
		Data: make([]byte, n),
		Len:  int(r.order.Uint32(h[12:16])),
	}
	if _, err := io.ReadFull(r.r, p.Data); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // the end of the file is not here
		}
		return Packet{}, fmt.Errorf("%w: data: %w", ErrCorrupt, err)
	}
	return p, nil
}

// ReadAll reads all packets up to the end of the file.
func (r *Reader) ReadAll() ([]Packet, error) {
	var ps []Packet
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return ps, nil
		}
		if err != nil {
			return ps, err
		}
		ps = append(ps, p)
	}
}
