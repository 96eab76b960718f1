// Command bpf2go-gen builds the steering program and the Go code around it.
//
// It runs in the directory of the package that it builds for, as go generate
// does, and writes
//
//	steer_bpfel.o, steer_bpfeb.o    the objects, for either byte order
//	steer_bpfel.go, steer_bpfeb.go  bpf2go's code that embeds and loads them
//	constants_gen.go                the constants of steer.h in Go
//
// All of them are committed, so that building the project needs no clang. With
// -check nothing is written: it builds into a temporary directory and fails,
// naming the files, when the committed ones differ. For that to work everywhere
// the compiler is pinned to one major version and no path gets into the objects.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	err := run(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "bpf2go-gen:", err)
		os.Exit(1)
	}
}

// run is main without the process around it.
func run(args []string) error {
	b := builder{pkg: os.Getenv("GOPACKAGE")}
	flags := flag.NewFlagSet("bpf2go-gen", flag.ContinueOnError)
	check := flags.Bool("check", false, "compare with the committed files and write nothing")
	clang := flags.String("clang", os.Getenv(clangEnv),
		"the `compiler` ($"+clangEnv+"); default: clang-"+clangMajor+" or clang on the path")
	flags.StringVar(&b.dir, "C", ".", "the `directory` of the package")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if b.pkg == "" {
		b.pkg = "bpf"
	}
	var err error
	if b.tools, err = findTools(*clang); err != nil {
		return err
	}
	if *check {
		return b.check()
	}
	return b.build(b.dir)
}
