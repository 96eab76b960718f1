package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/roce-xdp/roce-xdp/internal/daemon/control"
	"github.com/roce-xdp/roce-xdp/internal/daemon/show"
	"github.com/roce-xdp/roce-xdp/internal/session"
)

// showFlags are those of the commands that ask a daemon.
type showFlags struct {
	runtimeDir string
	format     show.Format
}

// object makes the command of an object: it shows, with the word show and without.
// what says how the words are called that follow.
func object(object, alias, what, short, example string, run func(context.Context, *showFlags, *cobra.Command, []string) error) *cobra.Command {
	f := new(showFlags)
	runE := func(cmd *cobra.Command, words []string) error {
		err := run(cmd.Context(), f, cmd, words)
		if errors.Is(err, show.ErrGrammar) {
			return misuse(cmd, err)
		}
		return err
	}
	cmd := &cobra.Command{
		Use: object, Short: short, Example: example, Args: cobra.ArbitraryArgs, RunE: runE,
		Long: short + ": what " + object + " of rdma(8) tells, of a daemon's devices.",
	}
	if alias != "" {
		cmd.Aliases = []string{alias}
	}
	cmd.AddCommand(&cobra.Command{
		Use: "show " + what, Aliases: []string{"list"}, Short: short, Example: example, Args: cobra.ArbitraryArgs, RunE: runE,
	})
	p := cmd.PersistentFlags()
	p.StringVar(&f.runtimeDir, "runtime-dir", "", "directory of the daemon's sockets (default ROCE_XDP_RUNTIME_DIR or "+session.DefaultDir+")")
	p.BoolVarP(&f.format.JSON, "json", "j", false, "print JSON")
	p.BoolVarP(&f.format.Pretty, "pretty", "p", false, "print JSON on many lines")
	p.BoolVarP(&f.format.Details, "details", "d", false, "print more")
	return cmd
}

// client is one of the daemon that is meant.
func (f *showFlags) client() *control.Client {
	return control.NewClient(cmp.Or(f.runtimeDir, session.Dir()))
}

// selected picks the rows that s wants, of the daemon's devices.
func selected(ctx context.Context, c *control.Client, s show.Selection, rows []control.Row) ([]control.Row, error) {
	if s.Device == "" {
		return s.Apply(rows, nil)
	}
	links, err := c.Links(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(links))
	for i, l := range links {
		names[i] = l.Text("ifname")
	}
	return s.Apply(rows, names)
}

func newLink() *cobra.Command {
	return object("link", "", "[DEV[/PORT]]", "Show a daemon's devices", "  roce-xdp link show\n  roce-xdp link show eth0/1 -j -d",
		func(ctx context.Context, f *showFlags, cmd *cobra.Command, words []string) error {
			s, err := show.ParseStatistic(words)
			if err != nil {
				return err
			}
			rows, err := f.client().Links(ctx)
			if err != nil {
				return err
			}
			if rows, err = selected(ctx, f.client(), s, rows); err != nil {
				return err
			}
			return f.format.Links(cmd.OutOrStdout(), rows)
		})
}

func newResource() *cobra.Command {
	return object("resource", "res", "[DEV | KIND [link DEV[/PORT] | dev DEV] [KEY VALUE]...]", "Show what programs have made",
		"  roce-xdp resource show\n  roce-xdp resource show qp link eth0/1 state RTS\n  roce-xdp resource show client -j",
		func(ctx context.Context, f *showFlags, cmd *cobra.Command, words []string) error {
			kind, s, err := show.ParseResource(words)
			if err != nil {
				return err
			}
			rows, err := f.client().Resources(ctx, kind)
			if err != nil {
				return err
			}
			if rows, err = selected(ctx, f.client(), s, rows); err != nil {
				return err
			}
			if kind == "" {
				return f.format.Summary(cmd.OutOrStdout(), rows)
			}
			return f.format.Resources(cmd.OutOrStdout(), kind, rows)
		})
}

func newStatistic() *cobra.Command {
	return object("statistic", "stat", "[link [DEV[/PORT]]]", "Show a daemon's counters",
		"  roce-xdp statistic show\n  roce-xdp statistic show link eth0/1 -j -p",
		func(ctx context.Context, f *showFlags, cmd *cobra.Command, words []string) error {
			s, err := show.ParseStatistic(words)
			if err != nil {
				return err
			}
			rows, err := f.client().Statistics(ctx)
			if err != nil {
				return err
			}
			if rows, err = selected(ctx, f.client(), s, rows); err != nil {
				return err
			}
			return f.format.Statistics(cmd.OutOrStdout(), rows)
		})
}
