package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// documents are the Markdown files that people read.
func documents(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			rel, err := filepath.Rel(root, f)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, rel)
		}
	}
	if len(all) < 4 {
		t.Fatalf("documents: %v", all)
	}
	return all
}

// The program in README.md is the example that is compiled and tested.
func TestReadmeProgramIsTheExample(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(blocks) != 1 {
		t.Fatalf("README.md has %d Go blocks, want 1", len(blocks))
	}
	indented := "\t" + strings.ReplaceAll(strings.TrimSuffix(blocks[0][1], "\n"), "\n", "\n\t")
	indented = strings.ReplaceAll(indented, "\n\t\n", "\n\n")
	if !strings.Contains(read(t, "examples/write/main.go"), indented) {
		t.Errorf("this part of README.md is not in examples/write/main.go:\n%s", indented)
	}
}

// Every relative link leads to a file, and to a heading of it where it names one.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, doc := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, doc), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, heading, _ := strings.Cut(m[1], "#")
			target := doc
			if path != "" {
				target = filepath.Join(filepath.Dir(doc), path)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s: %v", doc, m[1], err)
				continue
			}
			if heading != "" && !anchors(read(t, target))[heading] {
				t.Errorf("%s links to %s: no such heading", doc, m[1])
			}
		}
	}
}

// anchors are the names that headings have in links.
func anchors(markdown string) map[string]bool {
	all := map[string]bool{}
	drop := regexp.MustCompile(`[^a-z0-9 _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(markdown, -1) {
		name := drop.ReplaceAllString(strings.ToLower(m[1]), "")
		all[strings.ReplaceAll(name, " ", "-")] = true
	}
	return all
}

// Targets of make that documents mention exist.
func TestMakeTargetsExist(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, doc := range documents(t) {
		for _, m := range regexp.MustCompile("(?m)(?:`|^ +)make ([a-z-]+)").FindAllStringSubmatch(read(t, doc), -1) {
			if !regexp.MustCompile(`(?m)^([a-z -]* )?` + m[1] + `( [a-z -]*)?:`).MatchString(makefile) {
				t.Errorf("%s mentions `make %s`, which the Makefile does not have", doc, m[1])
			}
		}
	}
}
