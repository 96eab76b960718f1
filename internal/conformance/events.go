package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// Proof says how a test that names a rule ended.
type Proof struct {
	Test   string // package and top-level test: "internal/wire TestBTH"
	Passed bool   // false: it failed, was skipped, or did not end
}

// Results is what a run of tests has shown.
type Results struct {
	Proofs   map[string][]Proof // by rule
	Packages int                // that have tests, or do not compile
	Failed   int                // packages that failed
}

// event is one line of `go test -json` (see `go doc test2json`).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Key     string
	Value   string
}

// run is what is known of a test that has begun.
type run struct {
	output []string
	rules  []string
}

// collector follows the events of a run.
type collector struct {
	module  string
	human   io.Writer
	running map[string]map[string]*run // tests by package and name; "" is the package itself
	order   map[string][]string        // names in the order of their beginning
	results *Results
	err     error
}

// Collect reads the events of `go test -json` and writes to human what
// `go test` would have written: a line for each package, and the output of tests
// that failed. Package paths lose the prefix module. An error means that events
// could not be read or human not be written; failed tests are in the results.
func Collect(events io.Reader, module string, human io.Writer) (*Results, error) {
	c := &collector{
		module: module, human: human,
		running: map[string]map[string]*run{}, order: map[string][]string{},
		results: &Results{Proofs: map[string][]Proof{}},
	}
	d := json.NewDecoder(events)
	for {
		var e event
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			return c.results, c.err
		}
		if err != nil {
			return nil, fmt.Errorf("conformance: events of go test: %w", err)
		}
		c.add(&e)
	}
}

func (c *collector) add(e *event) {
	switch e.Action {
	case "build-output":
		c.print(e.Output)
	case "output":
		// Lines of the verbose form that say where the test is.
		if !strings.HasPrefix(e.Output, "=== ") {
			t := c.test(e)
			t.output = append(t.output, e.Output)
		}
	case "attr":
		if e.Key == Attribute {
			t := c.test(e)
			t.rules = append(t.rules, e.Value)
		}
	case "pass", "fail", "skip":
		if e.Test != "" {
			c.ended(e)
		} else {
			c.packageEnded(e)
		}
	}
}

func (c *collector) test(e *event) *run {
	tests := c.running[e.Package]
	if tests == nil {
		tests = map[string]*run{}
		c.running[e.Package] = tests
	}
	t := tests[e.Test]
	if t == nil {
		t = &run{}
		tests[e.Test] = t
		c.order[e.Package] = append(c.order[e.Package], e.Test)
	}
	return t
}

// ended notes what a test has proved. Its output is of no use unless it failed.
func (c *collector) ended(e *event) {
	t := c.test(e)
	c.prove(e.Package, e.Test, t, e.Action == "pass")
	if e.Action != "fail" {
		t.output = nil
	}
}

func (c *collector) prove(pkg, test string, t *run, passed bool) {
	top, _, _ := strings.Cut(test, "/")
	name := strings.TrimPrefix(strings.TrimPrefix(pkg, c.module), "/") + " " + top
	for _, id := range t.rules {
		c.results.Proofs[id] = append(c.results.Proofs[id], Proof{name, passed})
	}
	t.rules = nil
}

// packageEnded prints what `go test` prints of a package: of one that failed all
// output of tests that failed or did not end.
func (c *collector) packageEnded(e *event) {
	own := c.test(&event{Package: e.Package})
	if e.Action == "fail" {
		c.results.Failed++
		for _, name := range c.order[e.Package] {
			t := c.running[e.Package][name]
			if name != "" {
				c.print(t.output...)
			}
			c.prove(e.Package, name, t, false)
		}
		c.print(own.output...)
	} else if n := len(own.output); n > 0 {
		c.print(own.output[n-1]) // "ok", or "?" and why there is nothing to say
	}
	c.results.Packages++
	delete(c.running, e.Package)
	delete(c.order, e.Package)
}

func (c *collector) print(lines ...string) {
	for _, s := range lines {
		if _, err := io.WriteString(c.human, s); err != nil && c.err == nil {
			c.err = err
		}
	}
}

// shortName is "wire TestBTH" for a test of internal/wire.
func shortName(test string) string {
	pkg, name, _ := strings.Cut(test, " ")
	return path.Base(pkg) + " " + name
}
