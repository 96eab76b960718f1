package config

import (
	"fmt"
	"reflect"
)

// Limits are what a client, a program's open device, may have. What is nil is the
// default of package serve.
type Limits struct {
	Clients *int `toml:"max_clients"` // of all programs of the user together

	QPs   *int `toml:"max_qps"`
	CQs   *int `toml:"max_cqs"`
	SRQs  *int `toml:"max_srqs"`
	MRs   *int `toml:"max_mrs"` // memory regions and windows
	PDs   *int `toml:"max_pds"`
	AHs   *int `toml:"max_ahs"`
	XRCDs *int `toml:"max_xrcds"`
	CMIDs *int `toml:"max_cm_ids"`

	MulticastAttach *int `toml:"max_mcast_attach"` // queue pairs' attachments to groups

	Bytes      *Size `toml:"max_bytes"`      // of queues and buffers that it shares with the daemon
	Registered *Size `toml:"max_registered"` // that its regions cover

	// What may leave, of all of its queue pairs together.
	Rate        *Rate `toml:"max_rate"`
	MessageRate *int  `toml:"max_message_rate"` // a second

	// OwnMemory is whether regions may be on memory that is not of AllocBuffer.
	OwnMemory *bool `toml:"own_memory"`
	// Privileged is whether it may have queue pair 1 and privileged Q_Keys.
	Privileged *bool `toml:"privileged"`
}

// Over is l, with what it does not give taken from below.
func (l Limits) Over(below Limits) Limits {
	fill(&l, below)
	return l
}

// fill sets the fields of to, all pointers, that are nil, to those of from.
func fill[T any](to *T, from T) {
	t, f := reflect.ValueOf(to).Elem(), reflect.ValueOf(from)
	for i := range t.NumField() {
		if t.Field(i).IsNil() {
			t.Field(i).Set(f.Field(i))
		}
	}
}

// minRate is below what a limit of the rate makes no sense.
const minRate = Rate(1e6)

func (l Limits) check(table string) error {
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("toml")
		least := int64(1) // to admit nobody, name nobody
		switch p := v.Field(i).Interface().(type) {
		case *int:
			if p != nil && int64(*p) < least {
				return fmt.Errorf("%s: %s is %d: %d or more is possible", table, key, *p, least)
			}
		case *Size:
			if p != nil && int64(*p) < least {
				return fmt.Errorf("%s: %s is %v: more is needed", table, key, *p)
			}
		case *Rate:
			if p != nil && *p < minRate {
				return fmt.Errorf("%s: %s is %v: at least %v is possible", table, key, *p, minRate)
			}
		}
	}
	return nil
}

// Rule admits users, by name or number, and members of groups, to all interfaces or to
// those that it names, with limits of their own where it gives some. A rule without users and
// groups is for everyone.
type Rule struct {
	Users      []string `toml:"users"`
	Groups     []string `toml:"groups"`
	Interfaces []string `toml:"interfaces"`
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
	for _, name := range r.Interfaces {
		if err := checkName(name); err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
	}
	return r.Limits.check(table)
}
