package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/roce-xdp/roce-xdp/internal/ping"
)

func newPing() *cobra.Command {
	var (
		device         deviceFlags
		server, client bool
		o              = ping.Defaults()
	)
	cmd := &cobra.Command{
		Use:   "ping {-s | -c -a SERVER} [flags]",
		Short: "Try an RDMA connection, as rping does, with rping or with itself",
		Long: `ping is rping of librdmacm, with its options and protocol: the client connects by
the connection manager, and has the server READ its data and WRITE it back, round
by round. The other end may be rping over any RDMA adapter or Linux's rdma_rxe.
Ctrl-C ends it cleanly, with the summary.`,
		Example: `  sudo roce-xdp ping -s -P                            # the server, for all clients
  sudo roce-xdp ping -c -a 192.0.2.1 -C 10 -V         # the client, elsewhere
  rping -c -a 192.0.2.1 -C 10 -V                      # or any other RDMA adapter's
  roce-xdp ping -c -a 192.0.2.1 --daemon              # through the daemon there, which needs no root`,
		Args: argsBetween(0, 0, "no arguments are possible, the server's address is given by -a"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if server == client {
				return misuse(cmd, errors.New("one of -s, the server, and -c, the client, is needed"))
			}
			open, err := device.opener(cmd)
			if err != nil {
				return err
			}
			o.Open, o.Out, o.Log = open, cmd.OutOrStdout(), cmd.ErrOrStderr()
			o.Listening = func(at netip.AddrPort) {
				fmt.Fprintf(cmd.ErrOrStderr(), "waiting for the client on RDMA port %d\n", at.Port())
			}
			if server {
				err = ping.Server(cmd.Context(), o)
			} else {
				_, err = ping.Client(cmd.Context(), o)
			}
			if errors.Is(err, ping.ErrOptions) {
				return misuse(cmd, err)
			}
			return err
		},
	}
	f := cmd.Flags()
	device.add(cmd)
	f.StringVar(&o.Interface, "device", "", "network interface (default: the one that the address leads to, or the only one)")
	f.BoolVarP(&server, "server", "s", false, "be the server")
	f.BoolVarP(&client, "client", "c", false, "be the client")
	f.StringVarP(&o.Address, "address", "a", "", "server's address; of a server, where it listens (default: everywhere)")
	f.StringVarP(&o.Source, "source", "I", "", "client: own address to come from")
	f.IntVarP(&o.Port, "port", "p", o.Port, "port of the connection manager's TCP port space; no TCP is used")
	f.IntVarP(&o.Size, "size", "S", o.Size, "client: bytes that go each way in a round, 23 to 65535")
	f.IntVarP(&o.Count, "count", "C", 0, "client: rounds, 0 for until it is interrupted")
	f.BoolVarP(&o.Verbose, "verbose", "v", false, "print the data")
	f.BoolVarP(&o.Validate, "validate", "V", false, "client: compare the data that came back")
	f.BoolVarP(&o.Persistent, "persistent", "P", false, "server: serve clients until it is interrupted, many at a time")
	f.BoolVarP(&o.Debug, "debug", "d", false, "say how connections were made")
	f.BoolP("own-qp", "q", false, "accepted for rping's sake, without effect")
	f.DurationVar(&o.Timeout, "timeout", o.Timeout, "how long the other end has for each answer")
	f.BoolVarP(&o.JSON, "json", "j", false, "print JSON")
	return cmd
}
