package serve

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/proto"
)

// conversations is how many TestRandomConversations has; many more with
// ROCE_XDP_SOAK.
func conversations() int {
	if os.Getenv("ROCE_XDP_SOAK") != "" {
		return 20_000
	}
	return 150
}

// TestRandomConversations has what FuzzControl has with random input, one after another on
// one server, while an honest client's calls go on.
func TestRandomConversations(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	s := newStage(t)
	for range conversations() {
		s.play(t, randomInput(rnd))
		if t.Failed() {
			return
		}
	}
}

// randomInput is a conversation, mostly sensible.
func randomInput(rnd *rand.Rand) (input []byte) {
	for range 1 + rnd.IntN(12) {
		how, n := byte(0), 0
		if rnd.IntN(5) == 0 {
			how = byte(rnd.IntN(64))
		}
		if rnd.IntN(3) == 0 {
			n = rnd.IntN(12)
		}
		input = append(input, byte(rnd.IntN(len(proto.Messages)+1)), how, byte(n))
		for range n {
			input = append(input, byte(rnd.IntN(256)>>rnd.IntN(8)))
		}
	}
	return input
}
