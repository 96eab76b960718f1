package ping

import (
	"encoding/binary"
	"fmt"
)

// messageLen is the length of all messages, of both ends.
const messageLen = 16

// buffer is the memory that a message of the client names. The server's messages say
// no more than that they are there.
type buffer struct {
	addr uint64
	rkey uint32
	size uint32
}

// append appends the message, in network order.
func (m buffer) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, m.addr)
	b = binary.BigEndian.AppendUint32(b, m.rkey)
	return binary.BigEndian.AppendUint32(b, m.size)
}

// parseBuffer reads a message that must name 1 to MaxSize+1 bytes: C programs take a
// size of 65536 although they do not offer it.
func parseBuffer(b []byte) (buffer, error) {
	if len(b) != messageLen {
		return buffer{}, fmt.Errorf("%w: a message of %d bytes, not %d", ErrProtocol, len(b), messageLen)
	}
	m := buffer{
		addr: binary.BigEndian.Uint64(b), rkey: binary.BigEndian.Uint32(b[8:]), size: binary.BigEndian.Uint32(b[12:]),
	}
	if m.size == 0 || m.size > maxBuffer {
		return buffer{}, fmt.Errorf("%w: it offers %d bytes: 1 to %d are possible", ErrProtocol, m.size, maxBuffer)
	}
	return m, nil
}

const maxBuffer = MaxSize + 1
