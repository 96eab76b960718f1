package main

import (
	"bufio"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// constant is a number that the header defines.
type constant struct {
	Name  string // as in C, without the prefix: UDP_PORT
	Doc   string // the comment in front of it, one line per line of the comment
	Value uint64
}

// entry is one line of the verdict list.
type entry struct {
	Name string // as in C: PASS_TRUNCATED
	Text string
}

// header is what the shared header says, in its order.
type header struct {
	Constants []constant
	Verdicts  []entry
	// VerdictsDoc is the comment in front of the list.
	VerdictsDoc string
}

const prefix = "STEER_"

var (
	defineLine  = regexp.MustCompile(`^#define ` + prefix + `([A-Z0-9_]+) (\S+)$`)
	listLine    = regexp.MustCompile(`^#define ` + prefix + `VERDICTS\(X\) \\$`)
	entryLine   = regexp.MustCompile(`^\tX\(([A-Z][A-Z0-9_]*), "([^"\\]+)"\)( \\)?$`)
	otherDefine = regexp.MustCompile(`^#define ` + prefix)
)

// parseHeader reads the shared header. It takes just the forms that the header
// promises to use and refuses every other macro with the prefix, so that no
// constant is silently missing on the Go side.
func parseHeader(text string) (*header, error) {
	h := &header{}
	var doc []string
	var inList bool
	seen := map[string]bool{}
	once := func(name string) error {
		if seen[name] {
			return fmt.Errorf("%s is defined twice", name)
		}
		seen[name] = true
		return nil
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		var err error
		switch {
		case inList:
			m := entryLine.FindStringSubmatch(line)
			if m == nil {
				return nil, fmt.Errorf("line %d: want X(NAME, \"text\") in the list: %q", n, line)
			}
			err = once("verdict " + m[1])
			h.Verdicts = append(h.Verdicts, entry{Name: m[1], Text: m[2]})
			inList = m[3] != ""
			doc = nil
		case listLine.MatchString(line):
			inList, h.VerdictsDoc, doc = true, strings.Join(doc, "\n"), nil
		case defineLine.MatchString(line):
			m := defineLine.FindStringSubmatch(line)
			var v uint64
			if v, err = strconv.ParseUint(m[2], 0, 32); err == nil {
				err = once(m[1])
			}
			h.Constants = append(h.Constants, constant{Name: m[1], Doc: strings.Join(doc, "\n"), Value: v})
			doc = nil
		case otherDefine.MatchString(line):
			err = fmt.Errorf("macro in a form that cannot be shared: %q", line)
		default:
			doc = comment(doc, line)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if inList {
		return nil, fmt.Errorf("the list of verdicts does not end")
	}
	if len(h.Verdicts) == 0 {
		return nil, fmt.Errorf("no list of verdicts (%sVERDICTS)", prefix)
	}
	return h, nil
}

// comment collects the lines of a C comment; any other line forgets them.
func comment(doc []string, line string) []string {
	line = strings.TrimSpace(line)
	if strings.HasPrefix(line, "/*") {
		doc = nil
	} else if !strings.HasPrefix(line, "*") {
		return nil
	}
	line = strings.TrimPrefix(strings.TrimPrefix(line, "/*"), "*")
	line = strings.TrimSpace(strings.TrimSuffix(strings.TrimSuffix(line, "/"), "*"))
	if line == "" {
		return doc
	}
	return append(doc, line)
}
