package conformance

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// events are those that `go test -json` writes: "pkg test action text".
func events(t *testing.T, list ...event) string {
	t.Helper()
	var b strings.Builder
	for i := range list {
		line, err := json.Marshal(&list[i])
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.String()
}

func out(pkg, test, text string) event {
	return event{Action: "output", Package: pkg, Test: test, Output: text}
}

func attr(pkg, test, key, value string) event {
	return event{Action: "attr", Package: pkg, Test: test, Key: key, Value: value}
}

func end(pkg, test, action string) event { return event{Action: action, Package: pkg, Test: test} }

func TestCollect(t *testing.T) {
	const a, b = "example.com/m/internal/a", "example.com/m/b"
	for _, tt := range []struct {
		name   string
		events []event
		human  string
		proofs map[string][]Proof
		failed int
	}{
		{
			name: "a test passes",
			events: []event{
				out(a, "TestX", "=== RUN   TestX\n"), attr(a, "TestX", "rule", "6.5-1"), attr(a, "TestX", "other", "1"),
				out(a, "TestX", "    noise\n"), out(a, "TestX", "--- PASS: TestX (0.00s)\n"), end(a, "TestX", "pass"),
				out(a, "", "PASS\n"), out(a, "", "ok  \texample.com/m/internal/a\t0.1s\n"), end(a, "", "pass"),
			},
			human:  "ok  \texample.com/m/internal/a\t0.1s\n",
			proofs: map[string][]Proof{"6.5-1": {{"internal/a TestX", true}}},
		},
		{
			name: "one of two subtests fails",
			events: []event{
				attr(a, "TestX/one", "rule", "6.5-1"), out(a, "TestX/one", "    x_test.go:3: bad\n"),
				out(a, "TestX/one", "--- FAIL: TestX/one\n"), end(a, "TestX/one", "fail"),
				attr(a, "TestX/two", "rule", "6.5-2"), out(a, "TestX/two", "    fine\n"), end(a, "TestX/two", "pass"),
				out(a, "TestX", "--- FAIL: TestX\n"), end(a, "TestX", "fail"),
				out(a, "", "FAIL\n"), out(a, "", "FAIL\texample.com/m/internal/a\t0.1s\n"), end(a, "", "fail"),
			},
			human: "    x_test.go:3: bad\n--- FAIL: TestX/one\n--- FAIL: TestX\nFAIL\nFAIL\texample.com/m/internal/a\t0.1s\n",
			proofs: map[string][]Proof{
				"6.5-1": {{"internal/a TestX", false}}, "6.5-2": {{"internal/a TestX", true}},
			},
			failed: 1,
		},
		{
			name: "a test is skipped",
			events: []event{
				attr(a, "TestX", "rule", "6.5-1"), out(a, "TestX", "    no root\n"), end(a, "TestX", "skip"),
				out(a, "", "ok  \texample.com/m/internal/a\t0.1s\n"), end(a, "", "pass"),
			},
			human:  "ok  \texample.com/m/internal/a\t0.1s\n",
			proofs: map[string][]Proof{"6.5-1": {{"internal/a TestX", false}}},
		},
		{
			name: "a panic ends the package",
			events: []event{
				attr(a, "TestX", "rule", "6.5-1"), out(a, "TestX", "panic: no\n"),
				out(a, "", "FAIL\texample.com/m/internal/a\t0.1s\n"), end(a, "", "fail"),
			},
			human:  "panic: no\nFAIL\texample.com/m/internal/a\t0.1s\n",
			proofs: map[string][]Proof{"6.5-1": {{"internal/a TestX", false}}},
			failed: 1,
		},
		{
			name: "a package does not compile, another runs meanwhile",
			events: []event{
				attr(b, "TestY", "rule", "6.5-1"),
				{Action: "build-output", Output: "# example.com/m/internal/a\n"}, {Action: "build-fail"},
				out(a, "", "FAIL\texample.com/m/internal/a [build failed]\n"), end(a, "", "fail"),
				end(b, "TestY", "pass"), out(b, "", "ok  \texample.com/m/b\t0.1s\n"), end(b, "", "pass"),
			},
			human:  "# example.com/m/internal/a\nFAIL\texample.com/m/internal/a [build failed]\nok  \texample.com/m/b\t0.1s\n",
			proofs: map[string][]Proof{"6.5-1": {{"b TestY", true}}},
			failed: 1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var human strings.Builder
			r, err := Collect(strings.NewReader(events(t, tt.events...)), "example.com/m", &human)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.human, human.String()); d != "" {
				t.Errorf("output (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.proofs, r.Proofs); d != "" {
				t.Errorf("proofs (-want +got):\n%s", d)
			}
			if r.Failed != tt.failed {
				t.Errorf("%d packages failed, want %d", r.Failed, tt.failed)
			}
		})
	}
}

func TestCollectRefusesOtherText(t *testing.T) {
	if _, err := Collect(strings.NewReader("ok\n"), "m", &strings.Builder{}); err == nil {
		t.Error("text that is no event was accepted")
	}
}
