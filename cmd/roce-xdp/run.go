package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/roce-xdp/roce-xdp/internal/daemon"
	"github.com/roce-xdp/roce-xdp/internal/daemon/config"
)

func newRun() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "run [flags] IFACE...",
		Short: "Serve interfaces to other programs",
		Long: `run is the daemon: it opens network interfaces and gives programs of any user queue
pairs on them, through shared memory. It starts as root and keeps only the
capabilities that it needs; docs/daemon.md has its configuration, of which the
environment (ROCE_XDP_USER for --user, ROCE_XDP_INTERFACES) and flags set parts.

SIGHUP has it read the configuration again. SIGTERM and Ctrl-C end it once peers
have been told; a second signal ends it at once.`,
		Example: `  sudo roce-xdp run eth0
  sudo roce-xdp run --user nobody eth0 eth1
  sudo roce-xdp run --config /etc/roce-xdp/roce-xdp.toml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			source := configSource(cmd, file, args)
			reload := make(chan os.Signal, 1)
			signal.Notify(reload, syscall.SIGHUP)
			defer signal.Stop(reload)
			d, err := daemon.Start(daemon.Params{
				Load: source.Load, NewService: daemon.Clients, Reload: reload, Getenv: os.Getenv,
				Out: cmd.OutOrStdout(), Log: cmd.ErrOrStderr(),
			})
			if err != nil {
				return err
			}
			return d.Run(cmd.Context())
		},
	}
	addConfigFlags(cmd, &file)
	return cmd
}

func newValidate() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "validate [flags] [IFACE...]",
		Short: "Check the daemon's configuration",
		Long: `validate reads the configuration as run does, with the same flags and environment,
and says what is wrong with it. Nothing is opened.`,
		Example: "  roce-xdp validate --config /etc/roce-xdp/roce-xdp.toml",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := daemon.Validate(configSource(cmd, file, args).Load)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "valid, for %s\n", interfaces(len(c.Interfaces)))
			return err
		},
	}
	addConfigFlags(cmd, &file)
	return cmd
}

// addConfigFlags adds the settings that the command line has.
func addConfigFlags(cmd *cobra.Command, file *string) {
	f := cmd.Flags()
	f.StringVar(file, "config", "", "TOML file to read (docs/daemon.md)")
	for _, s := range config.Settings {
		if s.Bool {
			f.Bool(s.Flag, false, s.Help)
		} else {
			f.String(s.Flag, "", s.Help)
		}
	}
}

// configSource is where the configuration comes from. Flags that were not given are
// left to the environment and the file.
func configSource(cmd *cobra.Command, file string, interfaces []string) *config.Source {
	s := &config.Source{File: file, Env: os.LookupEnv, Flags: map[string]string{}, Interfaces: interfaces}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name != "config" {
			s.Flags[f.Name] = f.Value.String()
		}
	})
	return s
}

// interfaces counts them in words.
func interfaces(n int) string {
	if n == 1 {
		return "1 interface"
	}
	return fmt.Sprintf("%d interfaces", n)
}
