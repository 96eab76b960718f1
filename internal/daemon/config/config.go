package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/session"
)

// Defaults of a daemon.
const (
	DefaultPinDir      = "/sys/fs/bpf/roce-xdp"
	defaultStopTimeout = 5 * time.Second
	maxStopTimeout     = time.Hour
)

// ErrConfig is wrapped by every error about a configuration.
var ErrConfig = errors.New("configuration")

// Config is what a daemon runs by.
type Config struct {
	// RuntimeDir is where the daemon's sockets are: one daemon, one directory.
	RuntimeDir string `toml:"runtime_dir"`
	// PinDir has a directory for each interface with pins; on a BPF file system.
	PinDir string `toml:"pin_dir"`
	// User is whom a daemon that starts as root becomes, by name or number. Empty: it
	// stays root, without capabilities that it does not need.
	User string `toml:"user"`
	// Group is whose members may use the control socket, besides root and User.
	Group string `toml:"group"`
	// StopTimeout is how long a stop may take to disconnect peers and flush.
	StopTimeout Duration `toml:"stop_timeout"`
	// LogLevel is debug, info, warn or error.
	LogLevel slog.Level `toml:"log_level"`

	// Defaults hold for every interface, unless its own table says otherwise.
	Defaults Interface `toml:"defaults"`
	// Interfaces are those to serve.
	Interfaces map[string]Interface `toml:"interface"`

	// Limits are those of users that no entry of Allow gives others.
	Limits Limits `toml:"limits"`
	// Allow says who may connect: whom the first entry that names him admits. Without
	// entries everyone may.
	Allow []Rule `toml:"allow"`

	// override comes from the command line and the environment.
	override Interface
}

// defaults is a configuration without interfaces.
func defaults() *Config {
	return &Config{
		RuntimeDir:  session.DefaultDir,
		PinDir:      DefaultPinDir,
		StopTimeout: Duration(defaultStopTimeout),
		Interfaces:  map[string]Interface{},
	}
}

// Names are the interfaces to serve, in alphabetical order.
func (c *Config) Names() []string { return slices.Sorted(maps.Keys(c.Interfaces)) }

// Interface is what holds for the named interface when all is put together.
func (c *Config) Interface(name string) Interface {
	return c.override.over(c.Interfaces[name]).over(c.Defaults)
}

// check refuses values that are understood and cannot be.
func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for key, dir := range map[string]string{"runtime_dir": c.RuntimeDir, "pin_dir": c.PinDir} {
		if !filepath.IsAbs(dir) {
			bad("%s is %q: an absolute path is needed", key, dir)
		}
	}
	if c.StopTimeout < 0 || c.StopTimeout > Duration(maxStopTimeout) {
		bad("stop_timeout is %v: 0s to %v are possible", c.StopTimeout, maxStopTimeout)
	}
	if len(c.Interfaces) == 0 {
		bad("no interface to serve: name one on the command line, or in the file as [interface.eth0]")
	}
	for _, name := range c.Names() {
		if err := checkName(name); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := c.Options(name).Check(); err != nil {
			bad("interface %s: %w", name, err)
		}
	}
	errs = append(errs, c.Limits.check("limits"))
	for i := range c.Allow {
		errs = append(errs, c.Allow[i].check(i+1))
	}
	return errors.Join(errs...)
}

// maxName is what the kernel's IFNAMSIZ leaves of a name.
const maxName = 15

// checkName refuses what no network interface can be called.
func checkName(name string) error {
	if name == "" || len(name) > maxName || name == "." || name == ".." || strings.ContainsAny(name, "/: \t\n") {
		return fmt.Errorf("%q is not the name of a network interface", name)
	}
	return nil
}
