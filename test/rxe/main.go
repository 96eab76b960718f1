package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// options are the command's flags.
type options struct {
	scripts string         // folder of the guest's scripts
	binary  string         // roce-xdp, for the ping-pong rows
	run     *regexp.Regexp // rows to run
	smoke   bool           // only those of make test
	list    bool
	verbose bool
	dir     string // folder for captures that failed their check
	table   string // file for the results as a table
	perf    bool   // compare speeds instead of running rows
	rounds  int    // of that comparison
}

func main() {
	var o options
	run := flag.String("run", "", "run only the rows whose name matches this regular `expression`")
	limit := flag.Duration("timeout", 20*time.Minute, "end after this `time`")
	flag.StringVar(&o.scripts, "scripts", "test/rxe/guest", "`folder` of the scripts that run the guest")
	flag.StringVar(&o.binary, "binary", "bin/roce-xdp", "the command under test, for the ping-pong rows")
	flag.BoolVar(&o.smoke, "smoke", false, "run only a few rows, in a minute, as make test does")
	flag.BoolVar(&o.list, "list", false, "print the names of the rows and end")
	flag.BoolVar(&o.verbose, "v", false, "print commands and what the guest prints")
	flag.StringVar(&o.dir, "captures", "", "keep all captures in this `folder`")
	flag.StringVar(&o.table, "table", "", "write the results to this `file` as a Markdown table")
	flag.BoolVar(&o.perf, "perf", false, "measure our stack against rdma_rxe between two guests instead of running rows")
	flag.IntVar(&o.rounds, "rounds", 5, "`number` of rounds of -perf")
	flag.Parse()

	var err error
	if o.run, err = regexp.Compile(*run); err != nil {
		fail(fmt.Errorf("-run: %w", err))
	}
	for _, p := range []*string{&o.scripts, &o.binary} {
		if *p, err = filepath.Abs(*p); err != nil {
			fail(err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, *limit, fmt.Errorf("not done after %v (-timeout)", *limit))
	defer cancel()
	if o.perf {
		if err := comparePerf(ctx, &o, os.Stdout); err != nil {
			fail(err)
		}
		return
	}
	failed, err := interop(ctx, &o, os.Stdout)
	if err != nil {
		fail(err)
	}
	if failed > 0 {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "rxe:", err)
	os.Exit(1)
}
