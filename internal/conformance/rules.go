package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Text is a line of docs/rules.md that has an id.
type Text struct {
	ID   string // "6.5-3"
	Text string // Markdown on one line
}

// Rules is the contents of docs/rules.md.
type Rules struct {
	Sections   []Section         // in the order of the document
	Exceptions map[string]string // reasons, by the id of a rule that no test proves
	known      map[string]bool
}

// Section is a heading and the rules under it.
type Section struct {
	Title string // "6.5 Retransmission"
	Rules []Text
}

// Has reports whether there is a rule with this id.
func (r *Rules) Has(id string) bool { return r.known[id] }

// Count is the number of rules.
func (r *Rules) Count() int { return len(r.known) }

const idPattern = `\d+(?:\.\d+)?-\d+`

var (
	listRule  = regexp.MustCompile(`^- \*\*(` + idPattern + `)\*\* (.+)$`)
	tableHead = regexp.MustCompile(`^\| Id \| (.+) \|$`)
	tableRule = regexp.MustCompile(`^\| \*\*(` + idPattern + `)\*\* \| (.+) \|$`)
	exception = regexp.MustCompile(`^- (` + idPattern + `(?:, ` + idPattern + `)*): (.+)$`)
)

// ParseRules reads the text of docs/rules.md. Its rules are list items that
// begin with a bold id and table rows whose first cell is one, under a heading "Id"; the exceptions
// are the list items "id, id: reason" of the section of that name. It fails for
// an id that occurs twice, that stands under the heading of another section, or
// that is excepted without being a rule or without a reason.
func ParseRules(markdown string) (*Rules, error) {
	r := &Rules{Exceptions: map[string]string{}, known: map[string]bool{}}
	section, head := "", ""
	for i, line := range strings.Split(markdown, "\n") {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("rules: line %d: %s", i+1, fmt.Sprintf(format, args...))
		}
		if strings.HasPrefix(line, "#") {
			title := strings.TrimLeft(line, "# ")
			section, _, _ = strings.Cut(title, " ")
			r.Sections = append(r.Sections, Section{Title: title})
			continue
		}
		if section == "Exceptions" {
			if m := exception.FindStringSubmatch(line); m != nil {
				for id := range strings.SplitSeq(m[1], ", ") {
					r.Exceptions[id] = m[2]
				}
			} else if strings.HasPrefix(line, "- ") {
				return nil, fail("not an exception, which is \"- id, id: reason\"")
			}
			continue
		}
		if m := tableHead.FindStringSubmatch(line); m != nil {
			head = m[1]
		}
		m := listRule.FindStringSubmatch(line)
		if m == nil {
			if m = tableRule.FindStringSubmatch(line); m != nil {
				m[2] = joinCells(head, m[2])
			}
		}
		if m == nil {
			if strings.HasPrefix(line, "- **") || strings.HasPrefix(line, "| **") {
				return nil, fail("not a rule, which begins with an id such as **6.5-3**")
			}
			continue
		}
		id := m[1]
		if r.known[id] {
			return nil, fail("%s is there twice", id)
		}
		if !strings.HasPrefix(id, section+"-") {
			return nil, fail("%s stands in section %s", id, section)
		}
		r.known[id] = true
		last := &r.Sections[len(r.Sections)-1]
		last.Rules = append(last.Rules, Text{ID: id, Text: m[2]})
	}
	for id := range r.Exceptions {
		if !r.known[id] {
			return nil, fmt.Errorf("rules: %s is excepted, but is not a rule", id)
		}
	}
	return r, nil
}

// joinCells makes one sentence of a row's cells: each after the first with its
// column's heading, empty ones left out.
func joinCells(head, row string) string {
	heads := strings.Split(head, "|")
	var kept []string
	for i, cell := range strings.Split(row, "|") {
		cell = strings.TrimSpace(cell)
		switch {
		case cell == "–" || cell == "":
		case i == 0 || i >= len(heads):
			kept = append(kept, cell)
		default:
			kept = append(kept, strings.TrimSpace(heads[i])+": "+cell)
		}
	}
	return strings.Join(kept, "; ")
}

// RulesFile is the path of the rules in the module.
const RulesFile = "docs/rules.md"

// Root is the directory of the module that the working directory is in.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("conformance: no go.mod above the working directory: run this inside the module")
		}
		dir = up
	}
}

// LoadRules reads docs/rules.md of the module that the working directory is in.
func LoadRules() (*Rules, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(root, RulesFile))
	if err != nil {
		return nil, err
	}
	return ParseRules(string(b))
}
