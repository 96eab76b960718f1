package config

import (
	"cmp"
	"fmt"
	"reflect"
)

// Limits are what one user's programs may have together. What is nil is
// not limited, but by the device.
type Limits struct {
	Clients *int  `toml:"max_clients"` // open devices
	QPs     *int  `toml:"max_qps"`
	CQs     *int  `toml:"max_cqs"`
	SRQs    *int  `toml:"max_srqs"`
	MRs     *int  `toml:"max_mrs"` // memory regions and windows
	Bytes   *Size `toml:"max_bytes"`
	Rate    *Rate `toml:"max_rate"`
}

// Over is l, with what it does not give taken from below.
func (l Limits) Over(below Limits) Limits {
	return Limits{
		Clients: cmp.Or(l.Clients, below.Clients),
		QPs:     cmp.Or(l.QPs, below.QPs),
		CQs:     cmp.Or(l.CQs, below.CQs),
		SRQs:    cmp.Or(l.SRQs, below.SRQs),
		MRs:     cmp.Or(l.MRs, below.MRs),
		Bytes:   cmp.Or(l.Bytes, below.Bytes),
		Rate:    cmp.Or(l.Rate, below.Rate),
	}
}

// minRate is below what a limit of the rate makes no sense.
const minRate = Rate(1e6)

func (l Limits) check(table string) error {
	for _, n := range []struct {
		key   string
		value *int
	}{
		{"max_clients", l.Clients}, {"max_qps", l.QPs}, {"max_cqs", l.CQs}, {"max_srqs", l.SRQs}, {"max_mrs", l.MRs},
	} {
		if n.value != nil && *n.value < 0 {
			return fmt.Errorf("%s: %s is %d: 0 or more is possible", table, n.key, *n.value)
		}
	}
	if l.Rate != nil && *l.Rate < minRate {
		return fmt.Errorf("%s: max_rate is %v: at least %v is possible", table, *l.Rate, minRate)
	}
	return nil
}

// Rule admits users, by name or number, and members of groups, with limits of their own
// where it gives some. A rule without users and groups is for everyone.
type Rule struct {
	Users  []string `toml:"users"`
	Groups []string `toml:"groups"`
	Limits
}

func (r *Rule) check(n int) error {
	table := fmt.Sprintf("allow, entry %d", n)
	for _, names := range [][]string{r.Users, r.Groups} {
		for _, name := range names {
			if name == "" {
				return fmt.Errorf("%s: a user or group without a name", table)
			}
		}
	}
	return r.Limits.check(table)
}

// SamePolicy reports whether both admit the same users with the same limits.
func (c *Config) SamePolicy(o *Config) bool {
	return reflect.DeepEqual(c.Limits, o.Limits) && reflect.DeepEqual(c.Allow, o.Allow)
}
