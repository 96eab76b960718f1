package conformance

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parsed(t *testing.T) *Rules {
	t.Helper()
	r, err := ParseRules(sample)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// proved is a run in which each of the two rules without an exception was proved.
func proved() *Results {
	return &Results{Proofs: map[string][]Proof{
		"6.5-1": {{"internal/wire TestB", true}, {"internal/wire TestA", true}, {"internal/wire TestA", true}},
		"6.5-4": {{"internal/transport TestC", true}},
	}}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(map[string][]Proof)
		want   []string
	}{
		{"all proved", func(map[string][]Proof) {}, nil},
		{"no test", func(p map[string][]Proof) { delete(p, "6.5-4") },
			[]string{"6.5-4: no test proves it: retries used up; Status: RETRY_EXC_ERR"}},
		{"one of several tests failed", func(p map[string][]Proof) { p["6.5-1"][1].Passed = false },
			[]string{"6.5-1: internal/wire TestA failed or was skipped"}},
		{"an exception with a test", func(p map[string][]Proof) { p["10-1"] = p["6.5-1"] },
			[]string{"10-1: internal/wire TestB proves it, so it is no exception any more (nobody can see it)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := proved()
			tt.change(r.Proofs)
			if d := cmp.Diff(tt.want, Check(parsed(t), r)); d != "" {
				t.Errorf("wrong (-want +got):\n%s", d)
			}
		})
	}
}

func TestTable(t *testing.T) {
	got := Table(parsed(t), proved())
	for _, line := range []string{
		"4 rules, 2 of them proved, 2 excepted.",
		"## 6.5 Retransmission",
		"| 6.5-1 | The timeout runs. | `wire TestA`, `wire TestB` |",
		"| 6.5-3 | Progress starts it again. | – nobody can see it |",
		"| 6.5-4 | retries used up; Status: RETRY_EXC_ERR | `transport TestC` |",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("the table lacks %q:\n%s", line, got)
		}
	}
}

func TestStale(t *testing.T) {
	table := Table(parsed(t), proved())
	if got := Stale(table, table); got != "" {
		t.Errorf("the same table is stale: %s", got)
	}
	got := Stale(strings.Replace(table, "wire TestB", "wire TestZ", 1), table)
	for _, want := range []string{"- | 6.5-1", "TestZ", "+ | 6.5-1", "TestB", "run `make conformance`"} {
		if !strings.Contains(got, want) {
			t.Errorf("the message lacks %q: %s", want, got)
		}
	}
	if got := Stale("", table); !strings.Contains(got, "from line 1 on") {
		t.Errorf("of an empty file: %s", got)
	}
	if got := Stale(table, table+"more\n"); !strings.Contains(got, "+ more") {
		t.Errorf("of a table that lacks its last line: %s", got)
	}
}
