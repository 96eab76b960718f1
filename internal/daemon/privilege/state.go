package privilege

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// State are the credentials of the process that matter here.
type State struct {
	UID        int // effective
	Permitted  Set
	Effective  Set
	Bounding   Set
	NoNewPrivs bool
}

// Current reads those of this process.
func Current() (State, error) {
	f, err := os.Open("/proc/thread-self/status")
	if err != nil {
		return State{}, err
	}
	defer f.Close()
	return parse(f)
}

// parse reads a status file of proc(5).
func parse(r io.Reader) (State, error) {
	var s State
	seen := 0
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		key, text, _ := strings.Cut(lines.Text(), ":")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		var err error
		switch key {
		case "Uid": // real, effective, saved, file system
			if len(fields) != 4 {
				return State{}, fmt.Errorf("status of the process: %q", lines.Text())
			}
			s.UID, err = strconv.Atoi(fields[1])
		case "CapPrm":
			s.Permitted, err = parseSet(fields[0])
		case "CapEff":
			s.Effective, err = parseSet(fields[0])
		case "CapBnd":
			s.Bounding, err = parseSet(fields[0])
		case "NoNewPrivs":
			s.NoNewPrivs = fields[0] != "0"
		default:
			continue
		}
		if err != nil {
			return State{}, fmt.Errorf("status of the process: %w", err)
		}
		seen++
	}
	if lines.Err() == nil && seen != 5 {
		return State{}, errors.New("status of the process: fields are missing")
	}
	return s, lines.Err()
}

func parseSet(text string) (Set, error) {
	v, err := strconv.ParseUint(text, 16, 64)
	return Set(v), err
}

// ErrMissing is wrapped by the error of Check.
var ErrMissing = errors.New("the daemon lacks privileges")

// Check tells which capabilities are missing and how to get them.
func (s State) Check() error {
	missing := Needed &^ s.Effective
	if missing == 0 {
		return nil
	}
	return fmt.Errorf("%w: user %d has no %s: start it as root, which it gives up at once, "+
		"or with the unit packaging/roce-xdp.service; docs/privileges.md has other ways", ErrMissing, s.UID, missing.explain())
}
