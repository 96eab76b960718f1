package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// marked are the tests that name rules and the packages that have them: test
// functions that call conformance.Rule themselves, and all tests of a package
// that uses the stage.
func marked() (tests, packages []string, err error) {
	const format = "{{.ImportPath}}|{{.Dir}}|{{range .TestGoFiles}}{{.}} {{end}}{{range .XTestGoFiles}}{{.}} {{end}}|{{.TestImports}} {{.XTestImports}}"
	list, err := output("go", "list", "-f", format, "./...")
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(list) {
		f := strings.Split(line, "|")
		if !strings.Contains(f[3], "/internal/conformance") {
			continue
		}
		n := len(tests)
		for _, file := range strings.Fields(f[2]) {
			found, err := markedIn(f[1]+"/"+file, strings.Contains(f[3], "/internal/conformance/stage"))
			if err != nil {
				return nil, nil, err
			}
			tests = append(tests, found...)
		}
		if len(tests) > n {
			packages = append(packages, f[0])
		}
	}
	slices.Sort(tests)
	return slices.Compact(tests), packages, nil
}

// markedIn are the test functions of a file that name rules, or all of them.
func markedIn(path string, all bool) (tests []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") && fn.Name.Name != "TestMain" && (all || names(fn)) {
			tests = append(tests, fn.Name.Name)
		}
	}
	return tests, nil
}

// names reports whether a function calls conformance.Rule.
func names(fn *ast.FuncDecl) (found bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Rule" {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "conformance" {
				found = true
			}
		}
		return !found
	})
	return found
}
