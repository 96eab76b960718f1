// Command conformance runs tests and compares what they prove with the protocol
// rules.
//
//	conformance test [-table] ARGUMENTS OF GO TEST
//	conformance write
//
// test is `go test` with the same output. With -table it fails too when a rule of
// docs/rules.md has no passed test, or when docs/conformance.md is not what the
// run has proved; the run must be of the whole module then. write runs the tests
// that name rules, by their source, and writes docs/conformance.md.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/conformance"
)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "conformance: %v\n", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: conformance test [-table] GO-TEST-ARGUMENTS, or conformance write")

func command(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "write":
		return write()
	case len(args) > 1 && args[0] == "test":
		table := args[1] == "-table"
		if table {
			args = args[1:]
		}
		return test(table, args[1:])
	default:
		return errUsage
	}
}

// test runs the tests and, if asked to, holds the table.
func test(table bool, args []string) error {
	results, err := run(args)
	if err != nil || !table {
		return err
	}
	rules, made, err := judge(results)
	if err != nil {
		return err
	}
	path, err := tablePath()
	if err != nil {
		return err
	}
	committed, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if stale := conformance.Stale(string(committed), made); stale != "" {
		return errors.New(stale)
	}
	fmt.Printf("%d protocol rules: %d proved, %d excepted\n", rules.Count(), rules.Count()-len(rules.Exceptions), len(rules.Exceptions))
	return nil
}

// write makes the table anew.
func write() error {
	tests, packages, err := marked()
	if err != nil {
		return err
	}
	pattern := "^(" + strings.Join(tests, "|") + ")$"
	results, err := run(append([]string{"-count=1", "-timeout=8m", "-run", pattern}, packages...))
	if err != nil {
		return err
	}
	_, made, err := judge(results)
	if err != nil {
		return err
	}
	path, err := tablePath()
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(made), 0o644)
}

func tablePath() (string, error) {
	root, err := conformance.Root()
	return filepath.Join(root, conformance.TableFile), err
}

// run is `go test -json` with args. An error means that a test failed or that
// there were none.
func run(args []string) (*conformance.Results, error) {
	module, err := output("go", "list", "-m")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	results, err := conformance.Collect(events, strings.TrimSpace(module), os.Stdout)
	// A failed test is no surprise here: its package has failed.
	waited := cmd.Wait()
	switch {
	case err != nil:
		return nil, err
	case results.Failed > 0:
		return nil, fmt.Errorf("%d of %d packages failed", results.Failed, results.Packages)
	case waited != nil:
		return nil, fmt.Errorf("go test: %w", waited)
	case results.Packages == 0:
		return nil, errors.New("no packages to test")
	}
	return results, nil
}

// judge is the rules and the table of what was proved, or all that is wrong.
func judge(results *conformance.Results) (*conformance.Rules, string, error) {
	rules, err := conformance.LoadRules()
	if err != nil {
		return nil, "", err
	}
	if wrong := conformance.Check(rules, results); len(wrong) > 0 {
		return nil, "", fmt.Errorf("%d rules of %s are not proved:\n\t%s", len(wrong), conformance.RulesFile, strings.Join(wrong, "\n\t"))
	}
	return rules, conformance.Table(rules, results), nil
}

// output runs a command in the root of the module.
func output(name string, args ...string) (string, error) {
	root, err := conformance.Root()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
