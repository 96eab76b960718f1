package abi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// comments are those of a package's structures ("QPCap") and fields ("QPCap.MaxInline").
type comments map[string]string

// parse reads the comments of the sources in a directory.
func parse(dir string) (comments, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	all := comments{}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		src, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		tree, err := parser.ParseFile(token.NewFileSet(), f, src, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		all.collect(tree)
	}
	return all, nil
}

func (c comments) collect(tree *ast.File) {
	for _, d := range tree.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			t := s.(*ast.TypeSpec)
			st, ok := t.Type.(*ast.StructType)
			if !ok {
				continue
			}
			c[t.Name.Name] = clean(g.Doc.Text())
			for _, f := range st.Fields.List {
				for _, n := range f.Names {
					c[t.Name.Name+"."+n.Name] = clean(f.Comment.Text())
				}
			}
		}
	}
}

// link is a name in brackets.
var link = regexp.MustCompile(`\[(\w+)\]`)

func clean(s string) string { return link.ReplaceAllString(strings.TrimSpace(s), "$1") }
