package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// usageError is a command line that is not understood.
type usageError struct {
	command string
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// misuse makes a usage error of cmd.
func misuse(cmd *cobra.Command, err error) error {
	return &usageError{command: cmd.CommandPath(), err: err}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "roce-xdp",
		Short: "RoCEv2 network adapter in software, over XDP and AF_XDP",
		Long: `roce-xdp makes an RDMA adapter (RoCEv2) of an ordinary Ethernet interface: XDP
steers its RoCE frames into AF_XDP sockets, everything else stays with the kernel.

Most commands need root, or the capabilities of docs/privileges.md.`,
		Example: `  sudo roce-xdp demo
  sudo roce-xdp perf write-bw -d eth0                 # on one host
  sudo roce-xdp perf write-bw -d eth0 192.0.2.1       # on the other`,
		Args:          cobra.ArbitraryArgs, // RunE says what is wrong with them
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return misuse(cmd, fmt.Errorf("no command %q", args[0]))
			}
			return cmd.Help()
		},
	}
	root.SetFlagErrorFunc(misuse)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newVersion(), newDemo(), newPerf(), newPing(), newPingpong(), newResolve())
	root.AddCommand(newRun(), newValidate(), newLink(), newResource(), newStatistic())
	return root
}

// argsBetween is a check of positional arguments whose failure is a usage error;
// what says how many there are.
func argsBetween(low, high int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < low || len(args) > high {
			return misuse(cmd, fmt.Errorf("%s, not %d", what, len(args)))
		}
		return nil
	}
}

// checkPort checks the TCP port on which the two ends of a test meet. Port 0,
// any free one, is of no use: the client would have to guess it.
func checkPort(cmd *cobra.Command, port int) error {
	if port < 1 || port > 65535 {
		return misuse(cmd, fmt.Errorf("port (-p) is %d: 1 to 65535 are possible", port))
	}
	return nil
}

// hideDefault keeps a value that stands for "not given" out of the help, where the
// text of the option says what happens then.
func hideDefault(cmd *cobra.Command, flag string) { cmd.Flags().Lookup(flag).DefValue = "0" }

// deviceFlags are those of every command that opens a device.
type deviceFlags struct {
	mode   string
	queues int
}

func (f *deviceFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.mode, "mode", "auto", "where XDP runs: native (in the driver), generic, or auto")
	cmd.Flags().IntVar(&f.queues, "queues", 0, "receive queues to use, 0 for all that the interface has")
}

// opener returns how a device is opened.
func (f *deviceFlags) opener(cmd *cobra.Command) (func(string) (*verbs.Context, error), error) {
	mode, err := bpf.ParseMode(f.mode)
	if err != nil {
		return nil, misuse(cmd, err)
	}
	return func(ifname string) (*verbs.Context, error) {
		return datapath.Open(ifname, &datapath.Options{Mode: mode, Queues: f.queues})
	}, nil
}
