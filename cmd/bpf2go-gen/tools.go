package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// clangMajor is the one version whose output is committed.
const clangMajor = "14"

// clangEnv names the environment variable that chooses the compiler.
const clangEnv = "BPF2GO_GEN_CLANG"

// errClang is wrapped when no usable compiler is found.
var errClang = errors.New("clang " + clangMajor + " is needed to rebuild the BPF objects " +
	"(Debian, Ubuntu: apt-get install clang-" + clangMajor + " llvm-" + clangMajor + " libbpf-dev)")

// tools are the programs and directories that a build uses.
type tools struct {
	clang, strip string
	// include is the directory of the machine's <asm/types.h>, which clang does
	// not search when it compiles for BPF. Empty where it need not be named.
	include string
}

// findTools looks for the compiler and what belongs to it. A compiler that is
// named by the caller must be the pinned version too.
func findTools(named string) (tools, error) {
	candidates := []string{"clang-" + clangMajor, "clang"}
	if named != "" {
		candidates = []string{named}
	}
	clang, err := findClang(candidates)
	if err != nil {
		return tools{}, err
	}
	t := tools{clang: clang, include: machineInclude("/usr/include")}
	t.strip, err = findStrip(clang)
	return t, err
}

func findClang(candidates []string) (string, error) {
	var found []string
	for _, c := range candidates {
		path, err := exec.LookPath(c)
		if err != nil {
			found = append(found, c+" is not on the path")
			continue
		}
		out, err := exec.Command(path, "--version").Output()
		if err != nil {
			found = append(found, fmt.Sprintf("%s --version: %v", path, err))
			continue
		}
		major, err := clangVersion(string(out))
		if err == nil && major == clangMajor {
			return path, nil
		}
		if err == nil {
			err = fmt.Errorf("is version %s", major)
		}
		found = append(found, fmt.Sprintf("%s %v", path, err))
	}
	return "", fmt.Errorf("%w: %s", errClang, strings.Join(found, ", "))
}

var versionLine = regexp.MustCompile(`clang version ([0-9]+)\.`)

// clangVersion finds the major version in the output of clang --version.
func clangVersion(out string) (string, error) {
	m := versionLine.FindStringSubmatch(out)
	if m == nil {
		return "", errors.New("does not say that it is clang")
	}
	return m[1], nil
}

// findStrip finds the llvm-strip of the same LLVM: beside the compiler, behind
// its symbolic links, or on the path.
func findStrip(clang string) (string, error) {
	dirs := []string{filepath.Dir(clang)}
	if real, err := filepath.EvalSymlinks(clang); err == nil {
		dirs = append(dirs, filepath.Dir(real))
	}
	for _, dir := range dirs {
		for _, name := range []string{"llvm-strip-" + clangMajor, "llvm-strip"} {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path, nil
			}
		}
	}
	path, err := exec.LookPath("llvm-strip-" + clangMajor)
	if err != nil {
		return "", fmt.Errorf("%w: no llvm-strip-%s beside %s or on the path", errClang, clangMajor, clang)
	}
	return path, nil
}

// machineInclude finds the directory of asm/types.h on distributions that keep
// one for each architecture. Any architecture's will do: the types that the
// program uses are the same in all.
func machineInclude(root string) string {
	if _, err := os.Stat(filepath.Join(root, "asm", "types.h")); err == nil {
		return ""
	}
	found, err := filepath.Glob(filepath.Join(root, "*-linux-gnu*", "asm", "types.h"))
	if err != nil || len(found) == 0 {
		return ""
	}
	return filepath.Dir(filepath.Dir(found[0]))
}
