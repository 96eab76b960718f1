package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/opener"
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

A device is opened in the command's own process, as root or with the capabilities of
docs/privileges.md, or, without any, through the daemon (run) that has the interface
and serves it to all users.`,
		Example: `  sudo roce-xdp demo
  sudo roce-xdp run eth0                              # from now on no command needs root for eth0
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
	mode              string
	queues            int
	daemon, inProcess bool
}

func (f *deviceFlags) add(cmd *cobra.Command) {
	f.addWay(cmd)
	cmd.Flags().StringVar(&f.mode, "mode", "auto", "where XDP runs: native (in the driver), generic, or auto; implies --in-process")
	cmd.Flags().IntVar(&f.queues, "queues", 0, "receive queues to use, 0 for all that the interface has; implies --in-process")
}

// addWay adds those that say who has the device.
func (f *deviceFlags) addWay(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.daemon, "daemon", false, "use the device of a daemon (roce-xdp run), which needs no root (default: if one serves the interface)")
	cmd.Flags().BoolVar(&f.inProcess, "in-process", false, "own the interface, without a daemon, which needs root")
}

// way is what the flags say about who has the device.
func (f *deviceFlags) way(cmd *cobra.Command) (opener.Way, error) {
	own := cmd.Flags().Changed("mode") || cmd.Flags().Changed("queues")
	switch {
	case f.daemon && f.inProcess:
		return 0, misuse(cmd, errors.New("--daemon and --in-process exclude each other"))
	case f.daemon && own:
		return 0, misuse(cmd, errors.New("--mode and --queues are the daemon's to choose: they do not go with --daemon"))
	case f.daemon:
		return opener.Daemon, nil
	case f.inProcess || own:
		return opener.InProcess, nil
	}
	return opener.Either, nil
}

// opener returns how a device is opened.
func (f *deviceFlags) opener(cmd *cobra.Command) (func(string) (*verbs.Context, error), error) {
	mode, err := bpf.ParseMode(f.mode)
	if err != nil {
		return nil, misuse(cmd, err)
	}
	way, err := f.way(cmd)
	if err != nil {
		return nil, err
	}
	return func(ifname string) (*verbs.Context, error) {
		return opener.Open(ifname, way, &datapath.Options{Mode: mode, Queues: f.queues})
	}, nil
}
