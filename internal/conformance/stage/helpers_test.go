package stage_test

import (
	"encoding/binary"
	"time"

	. "github.com/roce-xdp/roce-xdp/internal/conformance/stage"
	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/queue"
)

// wordAt is a number in the memory that the peer reaches.
func wordAt(c *Stage, off int) uint64 { return binary.NativeEndian.Uint64(c.Remote(off, 8)) }

// retries is how often requests are sent again.
func retries(n uint8) Option { return Attr(func(a *ibv.QPAttr) { a.RetryCnt = n }) }

// rnrRetries is how many RNR NAKs in a row are borne.
func rnrRetries(n uint8) Option { return Attr(func(a *ibv.QPAttr) { a.RNRRetry = n }) }

// timeouts is when the nth local ACK timeout since the last progress ends.
func timeouts(n int) time.Duration {
	sum := time.Duration(0)
	for i := range n {
		sum += Timeout << min(i, 2)
	}
	return sum
}

// recvOf is the header of a receive of n entries that says it has length bytes.
func recvOf(n uint16, length uint32) queue.RecvWQE { return queue.RecvWQE{NumSGE: n, Length: length} }
