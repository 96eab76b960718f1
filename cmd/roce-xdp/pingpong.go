package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/roce-xdp/roce-xdp/internal/pingpong"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// pingpongs are the transport services with a C program of their own.
var pingpongs = []struct {
	name    string
	service verbs.QPType
	shared  bool // the receive queue is
	what    string
	same    string // options that both ends must be given alike
}{
	{"rc", verbs.RC, false, "a reliable connection", "-n, -s and -m"},
	{"uc", verbs.UC, false, "an unreliable connection", "-n, -s and -m"},
	{"ud", verbs.UD, false, "unreliable datagrams", "-n and -s"},
	{"srq", verbs.RC, true, "reliable connections with a shared receive queue", "-n, -s, -m and -q"},
}

func newPingpong() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pingpong",
		Short: "Exchange messages with ibv_rc_pingpong and its relatives, or with itself",
		Example: `  sudo roce-xdp pingpong rc -d eth0                # the server
  sudo roce-xdp pingpong rc -d eth0 192.0.2.1      # the client
  roce-xdp pingpong rc -d eth0 --daemon 192.0.2.1  # through the daemon there, which needs no root`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return misuse(cmd, fmt.Errorf("no ping-pong %q: rc, uc, ud and srq are there", args[0]))
			}
			return cmd.Help()
		},
	}
	for i := range pingpongs {
		p := &pingpongs[i]
		sub := newPingpongOver(p.name, p.service, p.shared)
		sub.Short = "Ping-pong over " + p.what
		sub.Long = fmt.Sprintf(`%[1]s is one end of ibv_%[1]s_pingpong: same protocol, options and output. The other
end may be that program on a host with an RDMA adapter or with Linux's rdma_rxe,
started with -g and the index of its RoCE v2 GID. Both ends must be given the
same %[2]s.`, p.name, p.same)
		if p.service != verbs.RC {
			sub.Long += " A message that is lost is not sent again: both ends then wait for\never, as the C programs do; end them with Ctrl-C."
		}
		sub.Example = fmt.Sprintf(`  sudo roce-xdp pingpong %[1]s -d eth0              # the server
  ibv_%[1]s_pingpong -d rxe0 -g 1 192.0.2.1         # the client, elsewhere`, p.name)
		cmd.AddCommand(sub)
	}
	return cmd
}

func newPingpongOver(name string, service verbs.QPType, shared bool) *cobra.Command {
	var device deviceFlags
	o := pingpong.Defaults(service)
	if shared {
		o = pingpong.DefaultsSRQ()
	}
	cmd := &cobra.Command{
		Use:  name + " [flags] [SERVER]",
		Args: argsBetween(0, 1, "one argument at most is possible, the server's host name or address"),
		RunE: func(cmd *cobra.Command, args []string) error {
			open, err := device.opener(cmd)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				o.Server = args[0]
			}
			if err := checkPort(cmd, o.Port); err != nil {
				return err
			}
			o.Open, o.Out = open, cmd.OutOrStdout()
			o.Listening = announce(cmd)
			if shared {
				_, err = pingpong.RunSRQ(cmd.Context(), o)
			} else {
				_, err = pingpong.Run(cmd.Context(), service, o)
			}
			if errors.Is(err, pingpong.ErrOptions) {
				return misuse(cmd, err)
			}
			return err
		},
	}
	f := cmd.Flags()
	device.add(cmd)
	f.StringVarP(&o.Interface, "device", "d", "", "network interface (default: the one that leads to the other end)")
	f.IntVarP(&o.Port, "port", "p", o.Port, "TCP port on which the two ends meet")
	f.IntVarP(&o.GIDIndex, "gid-idx", "g", o.GIDIndex, "index of the source GID (default: that of the TCP connection's address)")
	hideDefault(cmd, "gid-idx")
	f.IntVarP(&o.Size, "size", "s", o.Size, "bytes of each message")
	if service != verbs.UD {
		f.IntVarP(&o.MTU, "mtu", "m", o.MTU, "path MTU")
	}
	f.IntVarP(&o.RxDepth, "rx-depth", "r", o.RxDepth, "receives kept posted")
	if shared {
		f.IntVarP(&o.QPs, "num-qp", "q", o.QPs, "number of queue pairs")
		f.IntVarP(&o.Iters, "iters", "n", o.Iters, "messages each way, over all queue pairs together")
	} else {
		f.IntVarP(&o.Iters, "iters", "n", o.Iters, "messages each way")
	}
	f.IntVarP(&o.SL, "sl", "l", o.SL, "service level")
	f.BoolVarP(&o.Events, "events", "e", false, "sleep on completion events instead of polling")
	f.BoolVarP(&o.Validate, "chk", "c", false, "validate the received buffer")
	f.BoolVarP(&o.JSON, "json", "j", false, "print JSON")
	return cmd
}
