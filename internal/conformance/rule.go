package conformance

import (
	"sync"
	"testing"
)

// Attribute is the key under which a test's rules stand in the output of
// `go test -json`.
const Attribute = "rule"

var loaded = sync.OnceValues(LoadRules)

// Rule says that t proves the rules with these ids, if it passes. It fails t at
// once when docs/rules.md has no such rule.
func Rule(t testing.TB, ids ...string) {
	t.Helper()
	rules, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	if len(ids) == 0 {
		t.Fatal("no rule named")
	}
	for _, id := range ids {
		if !rules.Has(id) {
			t.Fatalf("%s has no rule %s", RulesFile, id)
		}
		t.Attr(Attribute, id)
	}
}
