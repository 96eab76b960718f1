// Package config is the daemon's configuration: one TOML file, over it environment
// variables, over those the command line. What is not understood is an error, with
// its line where it is in the file; docs/daemon.md has every key.
package config
