package archtest

import (
	"go/ast"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// maxLines bounds every file that is written by hand, tests too.
const maxLines = 700

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func TestFilesAreShort(t *testing.T) {
	for _, s := range sources(t) {
		if n := strings.Count(s.text, "\n"); n > maxLines && !generated.MatchString(s.text) {
			t.Errorf("%s has %d lines, the limit is %d: it holds more than one idea", s.path, n, maxLines)
		}
	}
}

func TestUnsafeStaysInItsFiles(t *testing.T) {
	for _, s := range sources(t) {
		base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(s.path), ".go"), "_test")
		if strings.HasSuffix(base, "_unsafe") || generated.MatchString(s.text) {
			continue
		}
		for _, imp := range s.file.Imports {
			if imp.Path.Value == `"unsafe"` {
				t.Errorf("%s:%d imports unsafe: only files named *_unsafe.go do", s.path, s.line(imp))
			}
		}
	}
}

// Time is a parameter of the pure packages.
func TestPurePackagesReadNoClock(t *testing.T) {
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}
	for _, s := range sources(t) {
		if s.isTest() || !slices.Contains(pure, filepath.ToSlash(filepath.Dir(s.path))) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, sel.Sel.Name) {
				t.Errorf("%s:%d calls time.%s: time is a parameter here", s.path, s.line(n), sel.Sel.Name)
			}
			return true
		})
	}
}

// Every package says what it is for, exactly once.
func TestPackagesAreDocumented(t *testing.T) {
	docs := map[string]int{}
	for _, s := range sources(t) {
		dir := filepath.Dir(s.path)
		if s.isTest() {
			continue
		}
		n := 0
		// A generated file's header is no documentation.
		if s.file.Doc != nil && !generated.MatchString(s.text) && s.file.Doc.Text() != "" {
			n = 1
		}
		docs[dir] += n
	}
	for dir, n := range docs {
		if n != 1 {
			t.Errorf("package %s has %d package comments, want 1", dir, n)
		}
	}
}

// Unfinished work is an issue, not a comment.
func TestNoUnfinishedMarks(t *testing.T) {
	marks := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|HA` + `CK)\b`)
	for _, s := range sources(t) {
		for _, group := range s.file.Comments {
			if m := marks.FindString(group.Text()); m != "" {
				t.Errorf("%s:%d has the mark %s", s.path, s.line(group), m)
			}
		}
	}
}

// math/rand of the first version is seeded behind our backs.
func TestRandomnessIsSeeded(t *testing.T) {
	for _, s := range sources(t) {
		for _, imp := range s.file.Imports {
			if path, _ := strconv.Unquote(imp.Path.Value); path == "math/rand" || path == "io/ioutil" {
				t.Errorf("%s:%d imports %s: use its successor", s.path, s.line(imp), path)
			}
		}
	}
}
