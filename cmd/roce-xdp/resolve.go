package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/roce-xdp/roce-xdp/cm/resolve"
	"github.com/roce-xdp/roce-xdp/internal/explain"
)

func newResolve() *cobra.Command {
	var device deviceFlags
	o := &explain.Options{}
	cmd := &cobra.Command{
		Use:   "resolve [flags] ADDRESS",
		Short: "Tell how a peer is reached, or why it is not",
		Long: `resolve goes the steps by which a connection finds its peer: device, source address
with GID index, route, next hop with link-layer address, path MTU. The GID index is
that of the daemon's device when a daemon serves it, else of a device that is opened
now; with --daemon all answers are the daemon's, in its network namespace. Exit code 1
says that there is no way; what is known of it is printed nevertheless. It needs no
privileges.`,
		Example: `  roce-xdp resolve 192.0.2.1
  roce-xdp resolve fe80::1%eth0
  roce-xdp resolve 192.0.2.1 -I eth1 --source 192.0.2.7 -j`,
		Args: argsBetween(1, 1, "one argument is needed, the address of the peer"),
		RunE: func(cmd *cobra.Command, args []string) error {
			way, err := device.way(cmd)
			if err != nil {
				return err
			}
			o.Peer, o.Out, o.Way = args[0], cmd.OutOrStdout(), way
			err = explain.Run(cmd.Context(), o)
			if errors.Is(err, explain.ErrOptions) {
				return misuse(cmd, err)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&device.daemon, "daemon", false, "ask the daemon (roce-xdp run), about the device of the interface, or the only one that it has")
	f.BoolVar(&device.inProcess, "in-process", false, "ask no daemon")
	f.StringVarP(&o.Interface, "interface", "I", "", "interface to leave by (default: what the routes say)")
	f.StringVar(&o.Source, "source", "", "own address (default: what the kernel prefers)")
	f.IntVar(&o.TOS, "tos", 0, "type of service or traffic class, by which rules may choose a route")
	f.DurationVar(&o.Timeout, "timeout", resolve.DefaultWait, "how long the next hop may take to answer")
	f.BoolVarP(&o.JSON, "json", "j", false, "print JSON")
	return cmd
}
