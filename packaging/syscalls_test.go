package packaging

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// needed are the system calls that the daemon makes and that no Go program makes by
// itself. One that the unit forbids fails with EPERM, and what it was for is missing
// without a word.
var needed = []string{
	"bpf", "fchownat", "fallocate", "flock", "ftruncate", "getcpu", "madvise", "memfd_create", "pread64", "pwrite64", "recvmsg", "sched_getaffinity",
	"sched_setaffinity", "sched_yield", "sendmmsg", "sendmsg", "setsockopt", "eventfd2", "socket",
}

// allowed are the calls that the unit's filters leave: each line adds, or with ~ takes
// away, and later ones count.
func allowed(t *testing.T, analyze string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), "SystemCallFilter=")
		if !ok {
			continue
		}
		value, take := strings.CutPrefix(value, "~")
		for _, name := range strings.Fields(value) {
			for _, call := range expand(t, analyze, name) {
				calls[call] = !take
			}
		}
	}
	return calls
}

// expand are the calls of a set, whose name begins with @, or the one call.
func expand(t *testing.T, analyze, name string) (calls []string) {
	t.Helper()
	if !strings.HasPrefix(name, "@") {
		return []string{name}
	}
	out, err := exec.Command(analyze, "syscall-filter", name).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
	for line := range strings.Lines(string(out)) {
		member := strings.TrimSpace(line)
		if member == "" || member == name || strings.HasPrefix(member, "#") {
			continue
		}
		calls = append(calls, expand(t, analyze, member)...)
	}
	return calls
}

func TestUnitAllowsWhatTheDaemonCalls(t *testing.T) {
	calls := allowed(t, analyzer(t))
	for _, name := range needed {
		if !calls[name] {
			t.Errorf("the unit forbids %s", name)
		}
	}
	for _, name := range []string{"ptrace", "mount", "init_module", "reboot", "keyctl"} {
		if calls[name] {
			t.Errorf("the unit allows %s", name)
		}
	}
}
