package shm

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(dialEnv); path != "" {
		dialAndWait(path)
	}
	goleak.VerifyTestMain(m)
}

// descriptors is how many this process has open.
func descriptors(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// noLeak checks at the end of the test that no descriptor is left of it. Tests that
// use it are not parallel.
func noLeak(t *testing.T) {
	t.Helper()
	before := descriptors(t)
	t.Cleanup(func() {
		if after := descriptors(t); after > before {
			t.Errorf("%d descriptors before, %d after", before, after)
		}
	})
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
