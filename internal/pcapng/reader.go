package pcapng

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"time"
)

// Reader reads one file, of either byte order. Blocks of other types than
// sections, interfaces and enhanced packets are passed over.
type Reader struct {
	r          io.Reader
	order      binary.ByteOrder
	interfaces []described
}

// described is an interface and how long its unit of time is.
type described struct {
	Interface
	perSecond uint64
}

// NewReader reads up to the end of the first section's header.
func NewReader(r io.Reader) (*Reader, error) {
	p := &Reader{r: r}
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if binary.LittleEndian.Uint32(head[:]) != blockSection {
		return nil, fmt.Errorf("%w: starts with % x", ErrFormat, head[:4])
	}
	if err := p.section(head); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return p, nil
}

// Interfaces are those that have been described so far in this section.
func (r *Reader) Interfaces() []Interface {
	var all []Interface
	for _, i := range r.interfaces {
		all = append(all, i.Interface)
	}
	return all
}

// Next reads the next packet; the error is io.EOF at the end of the file.
func (r *Reader) Next() (Packet, error) {
	for {
		var head [8]byte
		if _, err := io.ReadFull(r.r, head[:]); errors.Is(err, io.EOF) {
			return Packet{}, io.EOF
		} else if err != nil {
			return Packet{}, fmt.Errorf("%w: header: %w", ErrCorrupt, err)
		}
		typ := r.order.Uint32(head[:])
		if typ == blockSection {
			if err := r.section(head); err != nil {
				return Packet{}, err
			}
			continue
		}
		body, err := r.body(r.order.Uint32(head[4:]), len(head))
		if err != nil {
			return Packet{}, err
		}
		switch typ {
		case blockInterface:
			err = r.describe(body)
		case blockPacket:
			return r.packet(body)
		}
		if err != nil {
			return Packet{}, err
		}
	}
}

// readFull fills b. A file that ends here has ended too early.
func readFull(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// body reads the rest of a block, whose length in all is n and of which skip bytes
// have been read, and returns what is left up to the length at its end.
func (r *Reader) body(n uint32, skip int) ([]byte, error) {
	if int64(n) < int64(skip)+4 || n > MaxBlock || n%4 != 0 {
		return nil, fmt.Errorf("%w: %d bytes, a multiple of 4 from %d to %d is possible", ErrCorrupt, n, skip+4, MaxBlock)
	}
	b := make([]byte, int(n)-skip)
	if err := readFull(r.r, b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	end := len(b) - 4
	if again := r.order.Uint32(b[end:]); again != n {
		return nil, fmt.Errorf("%w: its length is %d at the beginning and %d at the end", ErrCorrupt, n, again)
	}
	return b[:end], nil
}

// section begins a section, which has a byte order and interfaces of its own.
func (r *Reader) section(head [8]byte) error {
	var magic [4]byte
	if err := readFull(r.r, magic[:]); err != nil {
		return fmt.Errorf("%w: section: %w", ErrCorrupt, err)
	}
	switch uint32(byteOrderMagic) {
	case binary.LittleEndian.Uint32(magic[:]):
		r.order = binary.LittleEndian
	case binary.BigEndian.Uint32(magic[:]):
		r.order = binary.BigEndian
	default:
		return fmt.Errorf("%w: byte order % x", ErrCorrupt, magic)
	}
	b, err := r.body(r.order.Uint32(head[4:]), len(head)+len(magic))
	if err != nil {
		return err
	}
	if len(b) < sectionLen-blockOverhead-len(magic) {
		return fmt.Errorf("%w: section header of %d bytes", ErrCorrupt, len(b))
	}
	if major := r.order.Uint16(b); major != 1 {
		return fmt.Errorf("%w: major version %d", ErrFormat, major)
	}
	r.interfaces = nil
	return nil
}

// describe reads the description of an interface.
func (r *Reader) describe(b []byte) error {
	if len(b) < interfaceLen {
		return fmt.Errorf("%w: interface of %d bytes", ErrCorrupt, len(b))
	}
	const microseconds = 6
	d := described{Interface: Interface{LinkType: r.order.Uint16(b)}, perSecond: units(microseconds)}
	err := r.options(b[interfaceLen:], func(code uint16, v []byte) {
		switch {
		case code == optIfName:
			d.Name = string(v)
		case code == optIfTSResol && len(v) == 1:
			d.perSecond = units(v[0])
		}
	})
	if err == nil && d.perSecond == 0 {
		err = fmt.Errorf("%w: interface whose unit of time is too small", ErrCorrupt)
	}
	r.interfaces = append(r.interfaces, d)
	return err
}

// units is how many units of time a second has: a power of 10, or of 2 when the
// upper bit is set; 0 when they are more than 64 bits can count.
func units(resolution uint8) uint64 {
	base, exponent := uint64(10), resolution&0x7f
	if resolution&0x80 != 0 {
		base = 2
	}
	n := uint64(1)
	for range exponent {
		if n > math.MaxUint64/base {
			return 0
		}
		n *= base
	}
	return n
}

// packet reads an enhanced packet.
func (r *Reader) packet(b []byte) (Packet, error) {
	if len(b) < packetLen {
		return Packet{}, fmt.Errorf("%w: packet of %d bytes", ErrCorrupt, len(b))
	}
	on, n := r.order.Uint32(b), r.order.Uint32(b[12:])
	rest := b[packetLen:]
	switch {
	case uint64(on) >= uint64(len(r.interfaces)):
		return Packet{}, fmt.Errorf("%w: packet of interface %d of %d", ErrCorrupt, on, len(r.interfaces))
	case uint64(n) > uint64(len(rest)):
		return Packet{}, fmt.Errorf("%w: %d bytes of data in a block with room for %d", ErrCorrupt, n, len(rest))
	}
	stamp := uint64(r.order.Uint32(b[4:]))<<32 | uint64(r.order.Uint32(b[8:]))
	p := Packet{
		Interface: int(on), Time: r.interfaces[on].time(stamp),
		Data: rest[:n:n], Len: int(r.order.Uint32(b[16:])),
	}
	err := r.options(rest[pad4(int(n)):], func(code uint16, v []byte) {
		switch {
		case code == optComment:
			p.Comments = append(p.Comments, string(v))
		case code == optEPBFlags && len(v) == 4:
			if d := Direction(r.order.Uint32(v) & 3); d <= Outbound {
				p.Direction = d
			}
		}
	})
	return p, err
}

// time is a time stamp in units of the interface.
func (d *described) time(stamp uint64) time.Time {
	s, part := stamp/d.perSecond, stamp%d.perSecond
	hi, lo := bits.Mul64(part, uint64(time.Second))
	ns, _ := bits.Div64(hi, lo, d.perSecond)
	return time.Unix(int64(s), int64(ns)).UTC()
}

// options calls each for every option up to the end of b, or the one that says
// that it is the last.
func (r *Reader) options(b []byte, each func(code uint16, value []byte)) error {
	for len(b) >= 4 {
		code, n := r.order.Uint16(b), int(r.order.Uint16(b[2:]))
		if code == optEnd {
			return nil
		}
		if pad4(n) > len(b)-4 {
			return fmt.Errorf("%w: option %d has %d bytes, %d are left", ErrCorrupt, code, n, len(b)-4)
		}
		each(code, b[4:4+n])
		b = b[4+pad4(n):]
	}
	return nil
}
