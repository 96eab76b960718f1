package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const source = `package p

func TestMain(m *testing.M) { conformance.Rule(nil, "1-1") }

func TestMarked(t *testing.T) { conformance.Rule(t, "6.5-1") }

func TestMarkedInside(t *testing.T) {
	t.Run("x", func(t *testing.T) { conformance.Rule(t, "6.5-2") })
}

func TestOther(t *testing.T) { other.Rule(t, "6.5-1"); conformance.LoadRules() }

func helper(t *testing.T) { conformance.Rule(t, "6.5-3") }

func (s suite) TestMethod(t *testing.T) { conformance.Rule(t, "6.5-3") }
`

func TestMarkedIn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p_test.go")
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		all  bool
		want []string
	}{
		{"those that name rules", false, []string{"TestMarked", "TestMarkedInside"}},
		{"all", true, []string{"TestMarked", "TestMarkedInside", "TestOther"}},
	} {
		got, err := markedIn(path, tt.all)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
	if _, err := markedIn(path+"x", false); err == nil {
		t.Error("a file that is not there has tests")
	}
}

// The rules are named by some tests of this module.
func TestMarkedOfTheModule(t *testing.T) {
	tests, packages, err := marked()
	if err != nil {
		t.Fatal(err)
	}
	if len(tests) < 50 || len(packages) < 4 {
		t.Errorf("%d tests in %d packages name rules, want 50 and 4 at least", len(tests), len(packages))
	}
}

func TestCommandRefuses(t *testing.T) {
	for _, args := range [][]string{nil, {"test"}, {"write", "x"}, {"check"}} {
		if err := command(args); !errors.Is(err, errUsage) {
			t.Errorf("%q: error %v, want the usage", args, err)
		}
	}
}
