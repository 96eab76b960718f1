package serve

import (
	"encoding/binary"

	"github.com/roce-xdp/roce-xdp/internal/proto"
)

// packed is a record of fixed size as it travels on a socket of events.
func packed[T proto.AsyncEvent | proto.CMEvent](m *T) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, m)
	if err != nil { // the types have a fixed size, so there is none
		return nil
	}
	return b
}
