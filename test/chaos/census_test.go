package chaos_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// census are the counts of a daemon by name.
type census map[string]int

// Of what the kernel counts, a daemon may have more than before by so much: the
// runtime keeps memory for itself.
const slackRSS = 32 << 20

// take counts what a daemon has: objects of clients, goroutines, descriptors, mappings
// of shared memory, and bytes of memory.
func take(t *testing.T, s *server) census {
	t.Helper()
	var in inside
	if err := json.Unmarshal([]byte(s.ask(t, "census")), &in); err != nil {
		t.Fatal(err)
	}
	c := census{"goroutines": in.Goroutines}
	maps.Copy(c, in.Objects)
	proc := fmt.Sprintf("/proc/%d/", s.pid())
	fds, err := os.ReadDir(proc + "fd")
	shared, merr := os.ReadFile(proc + "maps")
	status, serr := os.ReadFile(proc + "status")
	if err := errors.Join(err, merr, serr); err != nil {
		t.Fatal(err)
	}
	c["descriptors"], c["mappings"] = len(fds), strings.Count(string(shared), "/memfd:roce-xdp")
	for _, key := range []string{"RssAnon", "RssShmem"} {
		c[key] = field(t, string(status), key) << 10
	}
	return c
}

// field is a number of /proc/PID/status.
func field(t *testing.T, status, key string) int {
	t.Helper()
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s in status", key)
	return 0
}

// over says what there is more of than before.
func (c census) over(before census) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(c)) {
		allowed := before[key]
		if strings.HasPrefix(key, "Rss") {
			allowed += slackRSS
		}
		if c[key] > allowed {
			errs = append(errs, fmt.Errorf("%d %s, %d before", c[key], key, before[key]))
		}
	}
	return errors.Join(errs...)
}

// settle waits until a daemon has no more than before.
func settle(t *testing.T, s *server, before census) {
	t.Helper()
	s.alive(t)
	eventually(t, "what clients of daemon "+s.name+" have left behind goes", func() error { return take(t, s).over(before) })
}
