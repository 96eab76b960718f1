// Package conformance ties tests to the protocol rules of docs/rules.md and makes
// docs/conformance.md, the table of which test proves which rule.
//
// A test says what it proves:
//
//	func TestTimeoutZeroNeverEnds(t *testing.T) {
//		conformance.Rule(t, "6.5-2")
//		...
//	}
//
// Any test function of the module may do so, itself rather than through a helper:
// `make conformance` finds it by its source. The package imports nothing of the
// module, so that there are no cycles. An id that docs/rules.md does not have
// fails the test. Package stage, below, has the vocabulary in which most rules
// are tested in a few lines.
//
// `make test` runs every test once and hands the events to the command in
// cmd/conformance, which prints them as `go test` does, matches passed tests with
// rules, and compares the table with the committed one. `make conformance`
// writes it.
package conformance
