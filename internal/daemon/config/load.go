package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Source is where a configuration comes from. It is read again when the daemon is
// told to reload.
type Source struct {
	// File is the TOML file; empty: none.
	File string
	// Env looks an environment variable up, as os.LookupEnv.
	Env func(name string) (value string, ok bool)
	// Flags are settings of the command line by name, see Settings.
	Flags map[string]string
	// Interfaces are those of the command line. They add to those of the file.
	Interfaces []string
}

// Load reads and checks the configuration.
func (s *Source) Load() (*Config, error) {
	c := defaults()
	file := s.File
	if v, ok := s.env("CONFIG"); ok && file == "" {
		file = v
	}
	if file != "" {
		if err := readFile(c, file); err != nil {
			return nil, err
		}
	}
	for _, set := range Settings {
		if v, ok := s.env(set.env()); ok {
			if err := set.set(c, v); err != nil {
				return nil, fmt.Errorf("%w: %s: %w", ErrConfig, envPrefix+set.env(), err)
			}
		}
	}
	for _, set := range Settings {
		if v, ok := s.Flags[set.Flag]; ok {
			if err := set.set(c, v); err != nil {
				return nil, fmt.Errorf("%w: --%s: %w", ErrConfig, set.Flag, err)
			}
		}
	}
	names := s.Interfaces
	if v, ok := s.env("INTERFACES"); ok && len(names) == 0 {
		names = strings.Fields(strings.ReplaceAll(v, ",", " "))
	}
	for _, name := range names {
		if _, ok := c.Interfaces[name]; !ok {
			c.Interfaces[name] = Interface{}
		}
	}
	if err := c.check(); err != nil {
		if file != "" {
			return nil, fmt.Errorf("%w of %s: %w", ErrConfig, file, err)
		}
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return c, nil
}

// env is the environment variable of that name, unless it is empty.
func (s *Source) env(name string) (string, bool) {
	if s.Env == nil {
		return "", false
	}
	v, ok := s.Env(envPrefix + name)
	return v, ok && v != ""
}

// readFile reads the file over what c has.
func readFile(c *Config, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	err = toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(c)
	if err == nil {
		if c.Interfaces == nil {
			c.Interfaces = map[string]Interface{}
		}
		return nil
	}
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) {
		var errs []error
		for _, e := range unknown.Errors {
			line, _ := e.Position()
			errs = append(errs, fmt.Errorf("%w: %s:%d: unknown key %s%s", ErrConfig, file, line, strings.Join(e.Key(), "."), hint(e.Key())))
		}
		return errors.Join(errs...)
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		line, _ := bad.Position()
		what := strings.TrimPrefix(bad.Error(), "toml: ")
		if key := strings.Join(bad.Key(), "."); key != "" {
			what = key + ": " + plain(what) + hint(bad.Key())
		}
		return fmt.Errorf("%w: %s:%d: %s", ErrConfig, file, line, what)
	}
	return fmt.Errorf("%w: %s: %w", ErrConfig, file, err)
}

// hint says how interfaces are written, where they are written otherwise.
func hint(key []string) string {
	if len(key) != 1 || key[0] != "interface" && key[0] != "interfaces" {
		return ""
	}
	return ": each interface is a table: [interface.eth0]"
}

// plain takes the names of Go's types out of a decoder's message.
func plain(message string) string {
	before, after, ok := strings.Cut(message, " into struct field ")
	if !ok {
		return message
	}
	_, typ, _ := strings.Cut(after, " of type ")
	kind := map[string]string{"string": "text", "int": "a number", "bool": "true or false"}[strings.TrimPrefix(typ, "*")]
	if kind == "" {
		return before
	}
	return before + ": it has to be " + kind
}
