package pcapng

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"time"
)

var le = binary.LittleEndian

// Writer writes one file, little-endian, with times in nanoseconds. It does not
// buffer: each call is one Write of the file. It is used by one goroutine at a
// time.
type Writer struct {
	w          io.Writer
	block      []byte
	interfaces int
}

// NewWriter begins a file.
func NewWriter(w io.Writer) (*Writer, error) {
	p := &Writer{w: w}
	p.begin(blockSection)
	p.block = le.AppendUint32(p.block, byteOrderMagic)
	p.block = le.AppendUint32(p.block, 1) // major version 1, minor version 0
	p.block = le.AppendUint64(p.block, math.MaxUint64)
	return p, p.end()
}

// AddInterface describes one more interface and returns its number.
func (w *Writer) AddInterface(name string, linkType uint16) (int, error) {
	const nanoseconds = 9
	w.begin(blockInterface)
	w.block = le.AppendUint32(w.block, uint32(linkType))
	w.block = le.AppendUint32(w.block, 0) // packets are not cut
	if name != "" {
		w.option(optIfName, []byte(name))
	}
	w.option(optIfTSResol, []byte{nanoseconds})
	w.option(optEnd, nil)
	if err := w.end(); err != nil {
		return 0, err
	}
	w.interfaces++
	return w.interfaces - 1, nil
}

// Write appends a packet, of a time since 1970. Errors: ErrPacket, or what the
// file's Write says.
func (w *Writer) Write(p *Packet) error {
	ns := p.Time.UnixNano()
	length := max(p.Len, len(p.Data))
	switch {
	case p.Interface < 0 || p.Interface >= w.interfaces:
		return fmt.Errorf("%w: interface %d of %d", ErrPacket, p.Interface, w.interfaces)
	case p.Time.Unix() < 0 || p.Time.Unix() > math.MaxInt64/int64(time.Second)-1:
		return fmt.Errorf("%w: the time is %v", ErrPacket, p.Time)
	case uint64(length) > math.MaxUint32 || p.Direction > Outbound:
		return fmt.Errorf("%w: %d bytes, %v", ErrPacket, length, p.Direction)
	}
	w.begin(blockPacket)
	w.block = le.AppendUint32(w.block, uint32(p.Interface))
	w.block = le.AppendUint32(w.block, uint32(ns>>32))
	w.block = le.AppendUint32(w.block, uint32(ns))
	w.block = le.AppendUint32(w.block, uint32(len(p.Data)))
	w.block = le.AppendUint32(w.block, uint32(length))
	w.padded(p.Data)
	for _, c := range p.Comments {
		w.option(optComment, []byte(c))
	}
	if p.Direction != Unknown {
		w.option(optEPBFlags, []byte{byte(p.Direction), 0, 0, 0})
	}
	if p.Direction != Unknown || len(p.Comments) > 0 {
		w.option(optEnd, nil)
	}
	return w.end()
}

// begin starts a block; end fills in its length.
func (w *Writer) begin(typ uint32) {
	w.block = le.AppendUint32(w.block[:0], typ)
	w.block = le.AppendUint32(w.block, 0)
}

func (w *Writer) end() error {
	n := len(w.block) + 4
	if n > MaxBlock {
		return fmt.Errorf("%w: a block of %d bytes, at most %d are possible", ErrPacket, n, MaxBlock)
	}
	le.PutUint32(w.block[4:], uint32(n))
	w.block = le.AppendUint32(w.block, uint32(n))
	_, err := w.w.Write(w.block)
	return err
}

// option appends an option; what is longer than one can be is cut.
func (w *Writer) option(code uint16, value []byte) {
	value = value[:min(len(value), math.MaxUint16)]
	w.block = le.AppendUint16(w.block, code)
	w.block = le.AppendUint16(w.block, uint16(len(value)))
	w.padded(value)
}

func (w *Writer) padded(b []byte) {
	w.block = append(w.block, b...)
	w.block = append(w.block, make([]byte, pad4(len(b))-len(b))...)
}
