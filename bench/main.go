// Command bench measures this project against raw AF_XDP, TCP and UDP on the
// same machine, in interleaved rounds of one run, and prints ratios: absolute
// times of a shared machine say little.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

func main() {
	if dir := os.Getenv(daemonEnv); dir != "" {
		if err := beDaemon(dir); err != nil {
			fmt.Fprintln(os.Stderr, "bench: daemon:", err)
			os.Exit(1)
		}
		return
	}
	only := flag.String("only", "", "measure the parts alone whose names match this regular `expression`")
	rounds := flag.Int("rounds", 5, "interleaved rounds")
	secs := flag.Float64("seconds", 1, "seconds of each bandwidth measurement")
	apart := flag.Bool("apart", false, "run daemons in sessions of their own, as services do")
	out := flag.String("out", "bench/out/results.json", "where to write the results")
	check := flag.Bool("check", false, "fail when a target is missed")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, *only, *apart, *rounds, *secs, *out, *check)
	if cerr := netns.CloseAll(); err == nil {
		err = cerr
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, apart bool, rounds int, secs float64, out string, check bool) error {
	if rounds < 1 || secs <= 0 {
		return fmt.Errorf("%d rounds of %v s: both must be positive", rounds, secs)
	}
	m := newMeasures()
	m.apart = apart
	var err error
	if m.only, err = regexp.Compile(only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if m.only.MatchString(socketsPart) {
		for _, tool := range []string{"iperf3", "sockperf"} {
			if _, err := exec.LookPath(tool); err != nil {
				return fmt.Errorf("%s is missing: run `make deps`, or install the Debian package %s", tool, tool)
			}
		}
	}
	start := time.Now()
	for i := range rounds {
		fmt.Fprintf(os.Stderr, "bench: round %d of %d, %.0f s\n", i+1, rounds, time.Since(start).Seconds())
		if err := m.round(ctx, secs); err != nil {
			return err
		}
	}
	r := m.results()
	if err := r.write(out); err != nil {
		return err
	}
	r.print(os.Stdout)
	fmt.Printf("\nwritten to %s\n", out)
	if check {
		return r.check()
	}
	return nil
}
