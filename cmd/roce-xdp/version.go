package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/roce-xdp/roce-xdp/internal/buildinfo"
)

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print which build this is",
		Example: "  roce-xdp version -j",
		Args:    argsBetween(0, 0, "version takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			info := buildinfo.Get()
			if asJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(info)
			}
			commit := ""
			if info.Commit != "" {
				commit = " commit " + info.Commit
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "roce-xdp %s%s %s %s/%s\n", info.Version, commit, info.Go, info.OS, info.Arch)
			return err
		},
	}
	cmd.Flags().BoolVarP(&asJSON, "json", "j", false, "print JSON")
	return cmd
}
