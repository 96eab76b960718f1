package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// report prints results and keeps them for the table.
type report struct {
	out    io.Writer
	kernel string
	lines  []result
	failed int
}

type result struct {
	name string
	took time.Duration
	err  error
}

func (r *report) row(name string, took time.Duration, err error) {
	r.lines = append(r.lines, result{name, took, err})
	if err == nil {
		fmt.Fprintf(r.out, "PASS %s (%.1f s)\n", name, took.Seconds())
		return
	}
	r.failed++
	fmt.Fprintf(r.out, "FAIL %s (%.1f s): %v\n", name, took.Seconds(), err)
}

// finish prints the sum and writes the table.
func (r *report) finish(table string) error {
	fmt.Fprintf(r.out, "# %d rows, %d failed, against Linux %s\n", len(r.lines), r.failed, r.kernel)
	if table == "" {
		return nil
	}
	return os.WriteFile(table, []byte(r.markdown()), 0o644)
}

// markdown has a line for each operation, with the outcome of its variants.
func (r *report) markdown() string {
	type count struct{ pass, all int }
	var order []string
	counts := map[string]*count{}
	for _, l := range r.lines {
		parts := strings.SplitN(l.name, "/", 3)
		key := strings.Join(parts[:2], " | ")
		c := counts[key]
		if c == nil {
			c = &count{}
			counts[key] = c
			order = append(order, key)
		}
		c.all++
		if l.err == nil {
			c.pass++
		}
	}
	var b strings.Builder
	b.WriteString("| group | row | passed |\n| --- | --- | --- |\n")
	for _, key := range order {
		fmt.Fprintf(&b, "| %s | %d of %d |\n", key, counts[key].pass, counts[key].all)
	}
	return b.String()
}
