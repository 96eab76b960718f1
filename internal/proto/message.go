package proto

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMessage says that a packet is not a message of this protocol.
var ErrMessage = errors.New("not a message of the protocol")

// Header begins each message. A reply has the request's Op and Seq; one whose
// Status is not StatusOK has the body [Failure].
type Header struct {
	Size   uint32 // of the whole message, in bytes
	Op     Op
	FDs    uint16 // descriptors that come with it
	Seq    uint32 // chosen by the client, not used by two requests at a time
	Status Status // 0 in requests
}

// HeaderSize is the size of Header in bytes.
const HeaderSize = 16

// Failure is the body of a reply to a request that failed.
type Failure struct {
	Text [240]byte // what is wrong and what to do, UTF-8, ends at the first NUL
}

// Empty is a body without fields.
type Empty struct{}

// Append appends a message to b. body is one of this package's structures, or a
// pointer to one; h.Size is filled in.
func Append(b []byte, h Header, body any) ([]byte, error) {
	start := len(b)
	b, err := binary.Append(b, binary.LittleEndian, &h)
	if err == nil {
		b, err = binary.Append(b, binary.LittleEndian, body)
	}
	if err != nil {
		return b[:start], fmt.Errorf("%w: %T: %w", ErrMessage, body, err)
	}
	if n := len(b) - start; n > MaxMessage {
		return b[:start], fmt.Errorf("%w: %T is %d bytes", ErrMessage, body, n)
	}
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start))
	return b, nil
}

// Parse splits a packet into its header and body.
func Parse(packet []byte) (h Header, body []byte, err error) {
	if len(packet) < HeaderSize {
		return h, nil, fmt.Errorf("%w: %d bytes", ErrMessage, len(packet))
	}
	h = Header{
		Size: binary.LittleEndian.Uint32(packet), Op: Op(binary.LittleEndian.Uint16(packet[4:])), FDs: binary.LittleEndian.Uint16(packet[6:]),
		Seq: binary.LittleEndian.Uint32(packet[8:]), Status: Status(binary.LittleEndian.Uint32(packet[12:])),
	}
	if uint64(h.Size) != uint64(len(packet)) {
		return h, nil, fmt.Errorf("%w: %d bytes, the header says %d", ErrMessage, len(packet), h.Size)
	}
	return h, packet[HeaderSize:], nil
}

// Decode reads a body into what body points to. Its size must be exact.
func Decode(b []byte, body any) error {
	want := binary.Size(body)
	if want != len(b) {
		return fmt.Errorf("%w: a body of %d bytes for %T, which has %d", ErrMessage, len(b), body, want)
	}
	if _, err := binary.Decode(b, binary.LittleEndian, body); err != nil {
		return fmt.Errorf("%w: %T: %w", ErrMessage, body, err)
	}
	return nil
}
