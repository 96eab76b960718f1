package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// bpfDir is the package that the command builds for.
const bpfDir = "../../bpf"

// TestConstantsAreUpToDate needs no compiler.
func TestConstantsAreUpToDate(t *testing.T) {
	out := t.TempDir()
	b := builder{dir: bpfDir, pkg: "bpf"}
	if err := b.writeConstants(out); err != nil {
		t.Fatal(err)
	}
	want, got := read(t, out, constants), read(t, bpfDir, constants)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("run go generate in bpf: %s", d)
	}
}

// TestObjectsAreUpToDate builds everything and compares.
func TestObjectsAreUpToDate(t *testing.T) {
	if _, err := findTools(os.Getenv(clangEnv)); err != nil {
		netns.Missing(t, "clang", "the objects are rebuilt by the pinned version: "+err.Error())
	}
	if err := run([]string{"-check", "-C", bpfDir}); err != nil {
		t.Error(err)
	}
}

func TestCompare(t *testing.T) {
	fresh := func(t *testing.T) string {
		dir := t.TempDir()
		for _, name := range outputs {
			write(t, dir, name, "contents of "+name)
		}
		return dir
	}
	for _, c := range []struct {
		name   string
		change func(t *testing.T, dir string)
		want   []string
	}{
		{"same", func(*testing.T, string) {}, nil},
		{"object differs", func(t *testing.T, dir string) { write(t, dir, "steer_bpfeb.o", "old") }, []string{"steer_bpfeb.o"}},
		{"constants differ", func(t *testing.T, dir string) { write(t, dir, constants, "") }, []string{constants}},
		{"one is missing", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "steer_bpfel.go")); err != nil {
				t.Fatal(err)
			}
		}, []string{"steer_bpfel.go (missing)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			have, want := fresh(t), fresh(t)
			c.change(t, have)
			got, err := compare(have, want)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
	if _, err := compare(fresh(t), t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a build without output: %v", err)
	}
}

func TestCleanEnv(t *testing.T) {
	got := cleanEnv([]string{"PATH=/bin", "BPF2GO_CFLAGS=-O0", "GOFILE=x_test.go", "BPF2GO_GEN_CLANG=c", "GOFILES=1"})
	if d := cmp.Diff([]string{"PATH=/bin", "GOFILES=1"}, got); d != "" {
		t.Error(d)
	}
}

func TestWriteConstantsErrors(t *testing.T) {
	b := builder{dir: t.TempDir(), pkg: "bpf"}
	if err := b.writeConstants(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a header: %v", err)
	}
	write(t, b.dir, sharedFile, "#define STEER_A (1)\n")
	if err := b.writeConstants(t.TempDir()); err == nil || !strings.Contains(err.Error(), sharedFile+": line 1") {
		t.Errorf("with a bad header: %v", err)
	}
}

func TestRunArguments(t *testing.T) {
	if err := run([]string{"surplus"}); err == nil || !strings.Contains(err.Error(), "surplus") {
		t.Errorf("a surplus argument: %v", err)
	}
	if err := run([]string{"-clang", "/nonexistent/clang"}); !errors.Is(err, errClang) {
		t.Errorf("no compiler: %v", err)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
