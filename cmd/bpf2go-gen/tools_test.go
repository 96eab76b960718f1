package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClangVersion(t *testing.T) {
	for _, c := range []struct{ name, out, want string }{
		{"Debian", "Debian clang version 14.0.6\nTarget: x86_64-pc-linux-gnu\n", "14"},
		{"Fedora", "clang version 18.1.8 (Fedora 18.1.8-1.fc40)\n", "18"},
		{"Apple", "Apple clang version 15.0.0 (clang-1500.3.9.4)\n", "15"},
		{"three digits", "clang version 114.2.0\n", "114"},
		{"gcc", "gcc (Debian 12.2.0-14) 12.2.0\n", ""},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := clangVersion(c.out)
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// program writes a shell script that prints text.
func program(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	script := "#!/bin/sh\necho '" + text + "'\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFindTools(t *testing.T) {
	const right, wrong = "clang version 14.0.6", "clang version 19.1.0"
	for _, c := range []struct {
		name     string
		programs map[string]string
		named    string
		want     string
		words    []string // of the error
	}{
		{"with version in its name", map[string]string{"clang-14": right, "clang": wrong, "llvm-strip-14": ""}, "", "clang-14", nil},
		{"without", map[string]string{"clang": right, "llvm-strip": ""}, "", "clang", nil},
		{"named", map[string]string{"clang-14": right, "my-clang": right, "llvm-strip": ""}, "my-clang", "my-clang", nil},
		{"none", nil, "", "", []string{"clang 14 is needed", "clang-14 is not on the path", "apt-get install"}},
		{"wrong version", map[string]string{"clang": wrong}, "", "", []string{"clang 14 is needed", "is version 19"}},
		{"named wrong version", map[string]string{"clang-14": right, "clang-19": wrong}, "clang-19", "", []string{"is version 19"}},
		{"not clang", map[string]string{"clang-14": "gcc 12"}, "", "", []string{"does not say that it is clang"}},
		{"no strip", map[string]string{"clang-14": right}, "", "", []string{"llvm-strip-14"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("PATH", dir)
			for name, text := range c.programs {
				program(t, dir, name, text)
			}
			got, err := findTools(c.named)
			if c.want != "" {
				if err != nil || got.clang != filepath.Join(dir, c.want) || filepath.Dir(got.strip) != dir {
					t.Errorf("%+v, %v; want %s", got, err, c.want)
				}
				return
			}
			if !errors.Is(err, errClang) {
				t.Fatalf("error is %v, want one that wraps %q", err, errClang)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error does not say %q: %v", w, err)
				}
			}
		})
	}
}

// TestFindStripBehindLinks is how LLVM's own packages install it.
func TestFindStripBehindLinks(t *testing.T) {
	llvm, bin := t.TempDir(), t.TempDir()
	want := program(t, llvm, "llvm-strip", "")
	if err := os.Symlink(program(t, llvm, "clang", ""), filepath.Join(bin, "clang-14")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	got, err := findStrip(filepath.Join(bin, "clang-14"))
	if resolved, _ := filepath.EvalSymlinks(want); err != nil || got != resolved && got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestMachineInclude(t *testing.T) {
	for _, c := range []struct {
		name, file, want string
	}{
		{"one for each machine", "aarch64-linux-gnu/asm/types.h", "aarch64-linux-gnu"},
		{"one for all", "asm/types.h", ""},
		{"none", "stdio.h", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			path := filepath.Join(root, c.file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			want := ""
			if c.want != "" {
				want = filepath.Join(root, c.want)
			}
			if got := machineInclude(root); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}
