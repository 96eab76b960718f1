// Command roce-xdp is a RoCEv2 network adapter in software: it demonstrates,
// measures and tests RDMA over ordinary Ethernet interfaces.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Exit codes: 1 is a failure, 2 a command line that is not understood, 130 what
// shells use for an interrupted program.
const (
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main without the process around it.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := untilSignal(context.Background())
	defer stop()

	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "roce-xdp: interrupted")
		return exitInterrupted
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "roce-xdp: %v\nSee '%s --help'.\n", err, usage.command)
		return exitUsage
	default:
		// Joined errors come one a line; they stay apart in one.
		fmt.Fprintf(stderr, "roce-xdp: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
		return exitFailure
	}
}
