package integration_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		runChild(name)
	}
	goleak.VerifyTestMain(m)
}

// soak is value n for `make soak`, else the short one.
func soak(short, long int) int {
	if os.Getenv("ROCE_XDP_SOAK") == "1" {
		return long
	}
	return short
}
