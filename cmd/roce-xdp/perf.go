package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/roce-xdp/roce-xdp/internal/perf"
)

func newPerf() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "perf",
		Short: "Measure bandwidth and latency between two hosts",
		Long: `perf has the tests of perftest (ib_write_bw, ib_send_lat and so on), with their
options and tables. The server is started first and follows the client's options.`,
		Example: `  sudo roce-xdp perf write-bw -d eth0                     # the server
  sudo roce-xdp perf write-bw -d eth0 -s 1048576 192.0.2.1  # the client
  sudo roce-xdp perf write-bw -d eth0 -R 192.0.2.1          # the client, connecting as rdma_cm programs do
  roce-xdp perf write-bw -d eth0 --daemon 192.0.2.1         # through the daemon there, which needs no root`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return misuse(cmd, fmt.Errorf("no test %q", args[0]))
			}
			return cmd.Help()
		},
	}
	for _, t := range perf.Tests() {
		cmd.AddCommand(newPerfTest(t))
	}
	return cmd
}

func newPerfTest(test perf.Test) *cobra.Command {
	var (
		device  deviceFlags
		size    int
		seconds float64
		c       = perf.Config{Params: perf.Params{Test: test}}
		p       = &c.Params
	)
	cmd := &cobra.Command{
		Use:   test.String() + " [flags] [SERVER]",
		Short: test.Title(),
		Example: fmt.Sprintf(`  sudo roce-xdp perf %[1]s -d eth0             # the server
  sudo roce-xdp perf %[1]s -d eth0 192.0.2.1   # the client`, test),
		Args: argsBetween(0, 1, "one argument at most is possible, the server's host name or address"),
		RunE: func(cmd *cobra.Command, args []string) error {
			open, err := device.opener(cmd)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				c.Server = args[0]
			}
			if err := notZero(cmd, "iters", "duration", "mtu", "qp", "tx-depth", "rx-depth", "post-list", "cq-mod", "outs", "qp-timeout"); err != nil {
				return err
			}
			if err := checkPort(cmd, c.Port); err != nil {
				return err
			}
			if cmd.Flags().Changed("size") {
				p.Sizes = []int{size}
			}
			p.Duration = time.Duration(seconds * float64(time.Second))
			if c.Params, err = p.Complete(); err != nil {
				return misuse(cmd, err)
			}
			c.Open, c.Output.W = open, cmd.OutOrStdout()
			c.Listening = announce(cmd)
			_, err = perf.Run(cmd.Context(), c)
			if errors.Is(err, perf.ErrParams) {
				return misuse(cmd, err)
			}
			return err
		},
	}
	f := cmd.Flags()
	device.add(cmd)
	f.StringVarP(&c.Interface, "device", "d", "", "network interface (default: the one that leads to the other end)")
	f.IntVarP(&c.Port, "port", "p", perf.DefaultPort, "TCP port on which the two ends meet")
	f.IntVarP(&c.GIDIndex, "gid-index", "x", -1, "index of the source GID (default: that of the TCP connection's address)")
	hideDefault(cmd, "gid-index")
	f.IntVarP(&size, "size", "s", 0, "bytes of a message (default 65536, latency 2, atomics 8)")
	if test.Op != perf.Atomic { // which have one size
		f.BoolVarP(&p.AllSizes, "all", "a", false, "all sizes from 2 to 2^23")
	}
	f.IntVarP(&p.Iters, "iters", "n", 0, "messages of each size and queue pair (default 1000, WRITE bandwidth 5000)")
	f.Float64VarP(&seconds, "duration", "D", 0, "seconds to run instead of a number of messages")
	f.IntVarP(&p.MTU, "mtu", "m", 0, "path MTU (default: the largest that both links carry)")
	f.IntVarP(&p.TxDepth, "tx-depth", "t", 0, "requests outstanding on a queue pair (default 128, latency 1)")
	f.IntVarP(&p.Inline, "inline-size", "I", 0, "largest message that is sent inline")
	f.IntVarP(&p.Outstanding, "outs", "o", 0, "READs and atomics outstanding on a queue pair (default 16)")
	f.IntVarP(&p.RxDepth, "rx-depth", "r", 0, "receives posted on a queue pair (default 512)")
	f.Uint8VarP(&p.TrafficClass, "tclass", "T", 0, "TOS or traffic class byte")
	f.Uint8VarP(&p.SL, "sl", "S", 0, "service level")
	f.Uint8VarP(&p.Timeout, "qp-timeout", "u", 0, "local ACK timeout: 4.096 us times 2 to this power (default 14)")
	f.BoolVarP(&p.RDMACM, "rdma_cm", "R", false, "connect by the connection manager, as rdma_cm programs do")
	f.BoolP("cpu-freq", "F", false, "accepted for perftest's sake, without effect")
	f.BoolVarP(&c.Output.JSON, "json", "j", false, "print JSON")
	if !test.Latency {
		f.IntVarP(&p.QPs, "qp", "q", 0, "queue pairs (default 1)")
		f.BoolVarP(&p.Bidirectional, "bidirectional", "b", false, "both ends send")
		f.IntVarP(&p.PostList, "post-list", "l", 0, "requests posted together (default 1)")
		f.IntVarP(&p.CQMod, "cq-mod", "Q", 0, "requests for each completion (default 100)")
		f.BoolVar(&c.Output.Gbits, "report_gbits", false, "print Gb/sec instead of MB/sec")
	}
	return cmd
}

// notZero refuses a zero that was given for one of the named options, where it
// would be taken for the default.
func notZero(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		f := cmd.Flags().Lookup(name)
		if f != nil && f.Changed && f.Value.String() == "0" {
			return misuse(cmd, fmt.Errorf("--%s is 0: leave it out for the default", name))
		}
	}
	return nil
}

// announce is how a server says that it waits for its client.
func announce(cmd *cobra.Command) func(port int) {
	return func(port int) {
		fmt.Fprintf(cmd.ErrOrStderr(), "waiting for the client on TCP port %d\n", port)
	}
}
