package chaos_test

import (
	"flag"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var seedFlag = flag.Uint64("seed", 0, "seed of all that is random; 0: another one each time")

func TestMain(m *testing.M) {
	if name := os.Getenv(roleEnv); name != "" {
		os.Exit(play(name))
	}
	goleak.VerifyTestMain(m)
}

// soak is value n for `make soak`, else the short one.
func soak[T any](short, long T) T {
	if os.Getenv("ROCE_XDP_SOAK") == "1" {
		return long
	}
	return short
}

// newRandom is what a test makes its random choices with.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64() | 1
	}
	t.Logf("seed %d; the same again: go test ./test/chaos -run '^%s$' -args -seed %d", seed, t.Name(), seed)
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.Name()))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// between is a random time from low to high.
func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)+1))
}

// patience is how long things that are under way may take on a busy machine.
const patience = 20 * time.Second

// eventually waits until cond finds nothing wrong.
func eventually(t *testing.T, what string, cond func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = cond(); err == nil {
			return
		}
	}
	t.Fatalf("%s: not within %v: %v", what, patience, err)
}
