package config

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
)

// Key is a setting that differs, in the words of the file.
type Key struct {
	Name     string // with the tables that it is in: "interface.eth0.queues"
	From, To any    // nil: not given
	Live     bool   // it changes while the daemon works, and an interface's device stays open
}

// String is "stop_timeout: 5s -> 1s".
func (k Key) String() string { return k.Name + ": " + written(k.From) + " -> " + written(k.To) }

// written is a value as the file may have it.
func written(v any) string {
	switch v := v.(type) {
	case nil:
		return "default"
	case slog.Level:
		return strings.ToLower(v.String())
	case []string:
		if len(v) > 0 {
			return strings.Join(v, ", ")
		}
		return "none"
	case string:
		if v != "" {
			return v
		}
		return "none"
	}
	return fmt.Sprint(v)
}

// General are the differences between two configurations that are about no interface and no
// user.
func (c *Config) General(now *Config) []Key {
	all := []Key{
		{"runtime_dir", c.RuntimeDir, now.RuntimeDir, false},
		{"pin_dir", c.PinDir, now.PinDir, false},
		{"user", c.User, now.User, false},
		{"group", c.Group, now.Group, false},
		{"stop_timeout", c.StopTimeout, now.StopTimeout, true},
		{"log_level", c.LogLevel, now.LogLevel, true},
	}
	var keys []Key
	for _, k := range all {
		if k.From != k.To {
			keys = append(keys, k)
		}
	}
	return keys
}

// Policy are the differences in whom two configurations admit, and to what.
func (c *Config) Policy(now *Config) []Key {
	keys := settings("limits.", c.Limits, now.Limits)
	if n, m := len(c.Allow), len(now.Allow); n != m { // which is whose is anybody's guess
		keys = append(keys, Key{Name: "allow", From: entries(n), To: entries(m)})
	} else {
		for i := range c.Allow {
			a, b, table := &c.Allow[i], &now.Allow[i], fmt.Sprintf("allow[%d].", i+1)
			for _, list := range []Key{{Name: "users", From: a.Users, To: b.Users}, {Name: "groups", From: a.Groups, To: b.Groups}, {Name: "interfaces", From: a.Interfaces, To: b.Interfaces}} {
				if written(list.From) != written(list.To) {
					keys = append(keys, Key{Name: table + list.Name, From: list.From, To: list.To})
				}
			}
			keys = append(keys, settings(table, a.Limits, b.Limits)...)
		}
	}
	for i := range keys {
		keys[i].Live = true
	}
	return keys
}

func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprint(n, " entries")
}

// live are the keys of an interface that change while its device works.
var live = map[string]bool{"unknown_qpn": true, "no_socket": true}

// Differences between two sets of settings of the named interface.
func (i Interface) Differences(name string, now Interface) []Key {
	table := "interface." + name + "."
	keys := settings(table, i, now)
	for n := range keys {
		keys[n].Live = live[strings.TrimPrefix(keys[n].Name, table)]
	}
	return keys
}

// settings compares structures of pointers, whose fields have the keys of a table.
func settings[T any](table string, before, now T) []Key {
	var keys []Key
	a, b := reflect.ValueOf(before), reflect.ValueOf(now)
	for f := range a.NumField() {
		if from, to := deref(a.Field(f)), deref(b.Field(f)); from != to {
			keys = append(keys, Key{Name: table + a.Type().Field(f).Tag.Get("toml"), From: from, To: to})
		}
	}
	return keys
}

// deref is what a pointer field points to, as a comparable value.
func deref(p reflect.Value) any {
	if p.IsNil() {
		return nil
	}
	return p.Elem().Interface()
}
