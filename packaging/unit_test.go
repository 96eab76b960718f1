package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

const unit = "roce-xdp.service"

// worst is the exposure level that the unit may have, of 10.
const worst = 3.0

func analyzer(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		netns.Missing(t, "systemd", "systemd-analyze of the Debian package systemd")
	}
	return path
}

// The unit has no mistakes. The program is not installed where it says, so that one
// that is stands for it.
func TestUnitIsCorrect(t *testing.T) {
	analyze := analyzer(t)
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	installed := filepath.Join(t.TempDir(), unit)
	if err := os.WriteFile(installed, []byte(strings.ReplaceAll(string(text), "/usr/bin/roce-xdp", "/bin/true")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(analyze, "verify", "--man=no", installed).CombinedOutput()
	if err != nil || len(out) != 0 {
		t.Errorf("%v: %s", err, out)
	}
}

func TestUnitIsHardened(t *testing.T) {
	analyze := analyzer(t)
	out, err := exec.Command(analyze, "security", "--offline=true", unit).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("no level in %s", out)
	}
	level, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil || level > worst {
		t.Errorf("the exposure level is %s, more than %v:\n%s", m[1], worst, out)
	}
}
