package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	source     = "steer.bpf.c"
	sharedFile = "steer.h"
	constants  = "constants_gen.go"
)

// outputs are the files that a build makes.
var outputs = []string{"steer_bpfel.go", "steer_bpfel.o", "steer_bpfeb.go", "steer_bpfeb.o", constants}

// errStale is wrapped by check when a committed file is not what a build makes.
var errStale = errors.New("generated files are not up to date: run go generate")

// builder builds the package in dir.
type builder struct {
	dir, pkg string
	tools    tools
}

// cFlags for the compiler. Instruction set 3 has 32-bit jumps, and is in every
// kernel that knows xdp.frags.
func (b *builder) cFlags() []string {
	flags := []string{"-O2", "-g", "-Wall", "-Wextra", "-Werror", "-mcpu=v3"}
	if b.tools.include != "" {
		flags = append(flags, "-idirafter", b.tools.include)
	}
	return flags
}

// build writes all outputs into out.
func (b *builder) build(out string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	args := []string{
		"run", "github.com/cilium/ebpf/cmd/bpf2go",
		"-cc", b.tools.clang, "-strip", b.tools.strip,
		"-target", "bpfel,bpfeb", "-go-package", b.pkg, "-output-dir", out,
		"steer", source, "--",
	}
	cmd := exec.Command("go", append(args, b.cFlags()...)...)
	cmd.Dir = b.dir
	// The environment of bpf2go's own options must not get in.
	cmd.Env = cleanEnv(os.Environ())
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("bpf2go: %w\n%s", err, text)
	}
	return b.writeConstants(out)
}

// cleanEnv drops the variables that change what bpf2go does.
func cleanEnv(env []string) []string {
	var kept []string
	for _, v := range env {
		if !strings.HasPrefix(v, "BPF2GO_") && !strings.HasPrefix(v, "GOFILE=") {
			kept = append(kept, v)
		}
	}
	return kept
}

func (b *builder) writeConstants(out string) error {
	text, err := os.ReadFile(filepath.Join(b.dir, sharedFile))
	if err != nil {
		return err
	}
	h, err := parseHeader(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", sharedFile, err)
	}
	code, err := render(b.pkg, sharedFile, h)
	if err != nil {
		return fmt.Errorf("%s: %w", constants, err)
	}
	return os.WriteFile(filepath.Join(out, constants), code, 0o644)
}

// check builds into a temporary directory and compares.
func (b *builder) check() error {
	tmp, err := os.MkdirTemp("", "bpf2go-gen")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := b.build(tmp); err != nil {
		return err
	}
	stale, err := compare(b.dir, tmp)
	if err != nil {
		return err
	}
	if len(stale) > 0 {
		return fmt.Errorf("%w: %s", errStale, strings.Join(stale, ", "))
	}
	return nil
}

// compare names the outputs in have that are missing or not the same in want.
func compare(have, want string) ([]string, error) {
	var stale []string
	for _, name := range outputs {
		a, err := os.ReadFile(filepath.Join(have, name))
		if errors.Is(err, fs.ErrNotExist) {
			stale = append(stale, name+" (missing)")
			continue
		} else if err != nil {
			return nil, err
		}
		b, err := os.ReadFile(filepath.Join(want, name))
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(a, b) {
			stale = append(stale, name)
		}
	}
	return stale, nil
}
