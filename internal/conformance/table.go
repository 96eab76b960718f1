package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// TableFile is the path of the table in the module.
const TableFile = "docs/conformance.md"

// Check compares what a run has proved with the rules. Each string is one thing
// that is wrong: a rule without a passed test, a test of a rule that did not
// pass, an exception that has a passed test.
func Check(rules *Rules, results *Results) (wrong []string) {
	for _, section := range rules.Sections {
		for _, rule := range section.Rules {
			reason, excepted := rules.Exceptions[rule.ID]
			proofs := results.Proofs[rule.ID]
			bad := slices.IndexFunc(proofs, func(p Proof) bool { return !p.Passed })
			switch {
			case bad >= 0:
				wrong = append(wrong, fmt.Sprintf("%s: %s failed or was skipped", rule.ID, proofs[bad].Test))
			case len(proofs) == 0 && !excepted:
				wrong = append(wrong, fmt.Sprintf("%s: no test proves it: %s", rule.ID, rule.Text))
			case len(proofs) > 0 && excepted:
				wrong = append(wrong, fmt.Sprintf("%s: %s proves it, so it is no exception any more (%s)", rule.ID, proofs[0].Test, reason))
			}
		}
	}
	return wrong
}

// Table is the contents of docs/conformance.md.
func Table(rules *Rules, results *Results) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Conformance

Which test proves which of the [protocol rules](rules.md). Made by `+"`make conformance`"+` from the results of a run, in which
all of these tests passed; do not edit. %d rules, %d of them proved, %d excepted.
`, rules.Count(), rules.Count()-len(rules.Exceptions), len(rules.Exceptions))
	for _, section := range rules.Sections {
		if len(section.Rules) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n| Rule | Says | Proved by |\n| --- | --- | --- |\n", section.Title)
		for _, rule := range section.Rules {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", rule.ID, strings.ReplaceAll(rule.Text, "|", `\|`), provedBy(rules, results, rule.ID))
		}
	}
	return b.String()
}

// provedBy lists the tests of a rule, each once, in alphabetical order.
func provedBy(rules *Rules, results *Results, id string) string {
	if reason, excepted := rules.Exceptions[id]; excepted {
		return "– " + reason
	}
	var names []string
	for _, p := range results.Proofs[id] {
		names = append(names, "`"+shortName(p.Test)+"`")
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// Stale says where the committed table differs from the one that was made, ""
// if it does not.
func Stale(committed, made string) string {
	if committed == made {
		return ""
	}
	old, now := strings.Split(committed, "\n"), strings.Split(made, "\n")
	i := 0
	for i < min(len(old), len(now)) && old[i] == now[i] {
		i++
	}
	line := func(s []string) string {
		if i < len(s) {
			return s[i]
		}
		return "(its end)"
	}
	return fmt.Sprintf("%s is out of date from line %d on:\n\t- %s\n\t+ %s\nrun `make conformance` and commit what it writes", TableFile, i+1, line(old), line(now))
}
