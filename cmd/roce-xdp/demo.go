package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/roce-xdp/roce-xdp/internal/demo"
)

func newDemo() *cobra.Command {
	device := deviceFlags{inProcess: true} // the namespaces are its own
	o := demo.Options{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show RDMA between two network namespaces of this machine",
		Long: `demo makes two network namespaces joined by a veth pair, opens a device on each
end, connects a reliable queue pair, runs every operation on random data and
compares memory, then measures latency and bandwidth beside TCP over the same
link. It takes about ten seconds and leaves nothing behind, also when it is
interrupted.`,
		Example: `  sudo roce-xdp demo
  sudo roce-xdp demo --mode generic --ipv6 --mtu 1500 -j`,
		Args: argsBetween(0, 0, "demo takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			device.queues = o.Queues
			open, err := device.opener(cmd)
			if err != nil {
				return err
			}
			o.Open, o.Progress = open, cmd.ErrOrStderr()
			report, err := demo.Run(cmd.Context(), o)
			if report != nil && (err == nil || errors.Is(err, demo.ErrChecks)) {
				err = errors.Join(err, report.Print(cmd.OutOrStdout(), o.JSON))
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&device.mode, "mode", "auto", "where XDP runs: native (in the driver), generic, or auto")
	flags.IntVar(&o.LinkMTU, "mtu", 9000, "MTU of the link in bytes; the path MTU is the largest that fits")
	flags.IntVar(&o.Queues, "queues", 1, "receive and transmit queues of each end")
	flags.BoolVar(&o.IPv6, "ipv6", false, "use IPv6 addresses")
	flags.BoolVar(&o.Quick, "quick", false, "shorter measurements, no 64 MiB messages")
	flags.BoolVarP(&o.JSON, "json", "j", false, "print JSON")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if o.LinkMTU < 336 || o.LinkMTU > 65535 {
			return misuse(cmd, fmt.Errorf("--mtu is %d: 336, which carries a path MTU of 256, to 65535 are possible", o.LinkMTU))
		}
		if o.Queues < 1 || o.Queues > 64 {
			return misuse(cmd, fmt.Errorf("--queues is %d: 1 to 64 are possible", o.Queues))
		}
		return nil
	}
	return cmd
}
