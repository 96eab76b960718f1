package stage_test

import (
	"encoding/binary"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
)

// wordAt is a number in the memory that the peer reaches.
func wordAt(c *Stage, off int) uint64 { return binary.NativeEndian.Uint64(c.Remote(off, 8)) }
