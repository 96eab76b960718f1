package config

import (
	"encoding"
	"fmt"
	"strconv"
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/session"
)

// envPrefix begins the names of the environment variables.
const envPrefix = "ROCE_XDP_"

// Setting is a key that the command line and the environment can give as well.
type Setting struct {
	Flag string // the key with dashes; in the environment in capitals, with underscores
	Help string
	Bool bool // it is true or false
	set  func(c *Config, v string) error
}

// Settings are all of them, in the order of the help.
var Settings = []Setting{
	{"runtime-dir", "directory of the daemon's sockets (default " + session.DefaultDir + ")", false, func(c *Config, v string) error {
		c.RuntimeDir = v
		return nil
	}},
	{"user", "user to become when started as root", false, func(c *Config, v string) error {
		c.User = v
		return nil
	}},
	{"group", "group whose members may use the control socket", false, func(c *Config, v string) error {
		c.Group = v
		return nil
	}},
	{"stop-timeout", "how long a stop may take to disconnect peers (default 5s)", false, func(c *Config, v string) error {
		return c.StopTimeout.UnmarshalText([]byte(v))
	}},
	{"log-level", "debug, info, warn or error (default info)", false, func(c *Config, v string) error {
		return c.LogLevel.UnmarshalText([]byte(v))
	}},
	{"mode", "where XDP runs: native (in the driver), generic, or auto (default auto)", false, func(c *Config, v string) error {
		return text(&c.override.Mode, v)
	}},
	{"queues", "receive queues of each interface to use (default all)", false, func(c *Config, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil {
			return fmt.Errorf("%q is not a number", v)
		}
		c.override.Queues = &n
		return nil
	}},
	{"pin-dir", "where pinned interfaces have their directories (default " + DefaultPinDir + ")", false, func(c *Config, v string) error {
		c.PinDir = v
		return nil
	}},
	{"pin", "keep XDP attached across restarts", true, func(c *Config, v string) error {
		b, err := strconv.ParseBool(v)
		if err != nil {
			return fmt.Errorf("%q is not true or false", v)
		}
		c.override.Pin = &b
		return nil
	}},
}

func (s *Setting) env() string { return strings.ToUpper(strings.ReplaceAll(s.Flag, "-", "_")) }

// text sets *p to what the text says.
func text[T any, P interface {
	*T
	encoding.TextUnmarshaler
}](p **T, v string) error {
	var t T
	if err := P(&t).UnmarshalText([]byte(v)); err != nil {
		return err
	}
	*p = &t
	return nil
}
