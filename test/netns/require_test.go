package netns_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// recorder is a test that writes down how it would end.
type recorder struct{ fatal, skipped string }

func (r *recorder) Helper()                   {}
func (r *recorder) Cleanup(func())            {}
func (r *recorder) Fatalf(f string, a ...any) { r.fatal = fmt.Sprintf(f, a...) }
func (r *recorder) Skipf(f string, a ...any)  { r.skipped = fmt.Sprintf(f, a...) }

func TestMissing(t *testing.T) {
	tests := []struct {
		name, env string
		want      recorder
	}{
		{"nothing demanded", "", recorder{skipped: "needs xdp: no root"}},
		{"other demanded", "netns,tshark", recorder{skipped: "needs xdp: no root"}},
		{"part of a name", "xdpx", recorder{skipped: "needs xdp: no root"}},
		{"demanded", "netns,xdp", recorder{fatal: "ROCE_XDP_REQUIRE demands xdp: no root"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(netns.RequireEnv, tt.env)
			var got recorder
			// A real Fatalf does not return; the recorder's does, and Skipf follows.
			netns.Missing(&got, "xdp", "no root")
			if got.fatal != "" {
				got.skipped = ""
			}
			if d := cmp.Diff(tt.want, got, cmp.AllowUnexported(recorder{})); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestRequireRoot: as root nothing happens; without, it is a missing capability.
func TestRequireRoot(t *testing.T) {
	var got recorder
	netns.RequireRoot(&got, "files are given away")
	if os.Geteuid() == 0 {
		if got != (recorder{}) {
			t.Errorf("as root: %+v", got)
		}
		return
	}
	if got == (recorder{}) {
		t.Error("without root nothing is said")
	}
}

// TestMakeDemands: `make test` demands what the machine can have, huge pages only where their
// number may be raised.
func TestMakeDemands(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		netns.Missing(t, "make", err.Error())
	}
	cmd := exec.Command("make", "-s", "--no-print-directory", "-C", "../..", "--eval", "demanded: ; @echo $(REQUIRE)", "demanded")
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=") // whichever make runs this test
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("make: %v", err)
	}
	words := strings.Split(strings.TrimSpace(string(out)), ",")
	for word, want := range map[string]bool{"root": true, "netns": true, "xdp": true, "hugepages": unix.Access("/proc/sys/vm/nr_hugepages", unix.W_OK) == nil} {
		if got := slices.Contains(words, word); got != want {
			t.Errorf("%s is demanded: %v, want %v; all are %q", word, got, want, words)
		}
	}
}
