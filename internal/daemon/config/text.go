package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Duration is a time.Duration written as "50us" or "5s".
type Duration time.Duration

// Std is the value as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as \"50us\", \"200ms\" or \"5s\"", text)
	}
	*d = Duration(v)
	return nil
}

// Socket is an xsk.Mode by name: auto, copy or zero-copy.
type Socket xsk.Mode

var socketNames = []string{xsk.Auto: "auto", xsk.Copy: "copy", xsk.ZeroCopy: "zero-copy"}

func (s Socket) String() string { return socketNames[s] }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Socket) UnmarshalText(text []byte) error {
	i, err := choose(text, socketNames)
	*s = Socket(i)
	return err
}

// Poll is a datapath.PollPolicy by name: adaptive, interrupt or busy.
type Poll datapath.PollPolicy

var pollNames = []string{datapath.PollAdaptive: "adaptive", datapath.PollInterrupt: "interrupt", datapath.PollBusy: "busy"}

func (p Poll) String() string { return pollNames[p] }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Poll) UnmarshalText(text []byte) error {
	i, err := choose(text, pollNames)
	*p = Poll(i)
	return err
}

// Congestion is a verbs.Congestion by name: none or dcqcn.
type Congestion uint8

var congestionNames = []string{"none", "dcqcn"}

func (c Congestion) String() string { return congestionNames[c] }

func (c Congestion) verbs() verbs.Congestion {
	return []verbs.Congestion{verbs.CongestionNone, verbs.CongestionDCQCN}[c]
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Congestion) UnmarshalText(text []byte) error {
	i, err := choose(text, congestionNames)
	*c = Congestion(i)
	return err
}

// choose is the index of text among names.
func choose(text []byte, names []string) (int, error) {
	if i := slices.Index(names, string(text)); i >= 0 {
		return i, nil
	}
	last := len(names) - 1
	return 0, fmt.Errorf("%q is not one of %s and %s", text, strings.Join(names[:last], ", "), names[last])
}

// Size is a number of bytes, written as "64MiB".
type Size int64

var sizeUnits = []unit{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}}

func (s Size) String() string { return format(int64(s), sizeUnits) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	v, err := parse(text, sizeUnits, `a size such as "64MiB" or "1GiB"`)
	*s = Size(v)
	return err
}

// Rate is a number of bits a second, written as tc(8) does: "10Gbit".
type Rate int64

var rateUnits = []unit{{"Kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}, {"Tbit", 1e12}, {"bit", 1}}

func (r Rate) String() string { return format(int64(r), rateUnits) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(text []byte) error {
	v, err := parse(text, rateUnits, `a rate such as "100Mbit" or "25Gbit"`)
	*r = Rate(v)
	return err
}

// unit is a suffix with its factor.
type unit struct {
	suffix string
	factor int64
}

// parse reads a whole number with one of the units, which are tried in turn.
func parse(text []byte, units []unit, want string) (int64, error) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(string(text), u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > (1<<63-1)/u.factor {
			break
		}
		return n * u.factor, nil
	}
	return 0, fmt.Errorf("%q is not %s", text, want)
}

// format is the inverse of parse, with the largest unit that gives a whole number.
func format(v int64, units []unit) string {
	best := units[len(units)-1]
	for _, u := range units[:len(units)-1] {
		if v != 0 && v%u.factor == 0 {
			best = u
		}
	}
	return strconv.FormatInt(v/best.factor, 10) + best.suffix
}
