package show

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/daemon/control"
)

// Errors about what is to be shown.
var (
	// ErrGrammar: the words are not understood.
	ErrGrammar = errors.New("not understood")
	// ErrNoDevice: the daemon has no such device.
	ErrNoDevice = errors.New("no such device")
)

// Selection says which rows are shown. The zero value shows all.
type Selection struct {
	Device  string // empty: all
	Filters []Filter

	others string // that the name of a device may have been meant to be
}

// Filter wants a value for a key: one, or one of several, or of ranges, as
// "17", "RC,UD" and "16-31,40".
type Filter struct{ Key, Want string }

// ParseDevice reads DEV or DEV/PORT.
func ParseDevice(text string) (Selection, error) {
	name, port, ok := strings.Cut(text, "/")
	if name == "" || ok && port != "1" && port != "-" {
		return Selection{}, fmt.Errorf("%w: %q is no device: DEV and DEV/1 are possible, a device has one port", ErrGrammar, text)
	}
	return Selection{Device: name}, nil
}

// ParseResource reads the words behind `resource show`: nothing or DEV for numbers,
// else KIND [link DEV[/PORT] | dev DEV] [KEY VALUE]...
func ParseResource(words []string) (kind string, s Selection, err error) {
	if len(words) == 0 {
		return "", s, nil
	}
	if !slices.Contains(control.Kinds, words[0]) {
		if len(words) > 1 {
			return "", s, fmt.Errorf("%w: there are no resources %q, but %s", ErrGrammar, words[0], strings.Join(control.Kinds, ", "))
		}
		s, err = ParseDevice(words[0])
		s.others = "; the kinds of resources are " + strings.Join(control.Kinds, ", ")
		return "", s, err
	}
	kind, words = words[0], words[1:]
	if len(words) > 0 && (words[0] == "link" || words[0] == "dev") {
		if len(words) == 1 {
			return kind, s, nil // all, as rdma(8) has it
		}
		if s, err = ParseDevice(words[1]); err != nil {
			return kind, s, err
		}
		words = words[2:]
	}
	if len(words)%2 != 0 {
		return kind, s, fmt.Errorf("%w: %q has no value: filters are pairs of a key and what it has to be", ErrGrammar, words[len(words)-1])
	}
	for pair := range slices.Chunk(words, 2) {
		s.Filters = append(s.Filters, Filter{Key: pair[0], Want: pair[1]})
	}
	return kind, s, nil
}

// ParseStatistic reads the words behind `statistic show`: [link [DEV[/PORT]]].
func ParseStatistic(words []string) (s Selection, err error) {
	if len(words) > 0 && words[0] == "link" {
		words = words[1:]
	}
	switch len(words) {
	case 0:
		return s, nil
	case 1:
		return ParseDevice(words[0])
	default:
		return s, fmt.Errorf("%w: %q: one device at most is possible", ErrGrammar, strings.Join(words, " "))
	}
}

// Apply picks the rows. devices are the names of all that there are.
func (s *Selection) Apply(rows []control.Row, devices []string) ([]control.Row, error) {
	if s.Device != "" && !slices.Contains(devices, s.Device) {
		has := "it has none"
		if len(devices) > 0 {
			has = "it has " + strings.Join(devices, ", ")
		}
		return nil, fmt.Errorf("%w: the daemon does not serve %s, %s", ErrNoDevice, s.Device, has+s.others)
	}
	picked := []control.Row{}
	for _, r := range rows {
		if s.matches(r) {
			picked = append(picked, r)
		}
	}
	return picked, nil
}

func (s *Selection) matches(r control.Row) bool {
	if s.Device != "" && r.Text("ifname") != s.Device {
		return false
	}
	for _, f := range s.Filters {
		if !f.matches(r) {
			return false
		}
	}
	return true
}

func (f *Filter) matches(r control.Row) bool {
	v := r.Get(f.Key)
	if v == nil {
		return false
	}
	have := r.Text(f.Key)
	for want := range strings.SplitSeq(f.Want, ",") {
		if strings.EqualFold(want, have) || inRange(want, have) {
			return true
		}
	}
	return false
}

// inRange reports whether the number have is in the range FROM-TO.
func inRange(want, have string) bool {
	from, to, ok := strings.Cut(want, "-")
	if !ok {
		return false
	}
	low, err1 := strconv.ParseUint(from, 0, 64)
	high, err2 := strconv.ParseUint(to, 0, 64)
	n, err3 := strconv.ParseUint(have, 0, 64)
	return errors.Join(err1, err2, err3) == nil && low <= n && n <= high
}
