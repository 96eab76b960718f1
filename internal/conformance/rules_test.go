package conformance

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sample = `# Rules

Text with **6.5-3** in it.

## 6 Requester

### 6.5 Retransmission

- **6.5-1** The timeout runs.
- **6.5-3** Progress starts it again.

| Id | Event | Status | Note |
| --- | --- | --- | --- |
| **6.5-4** | retries used up | RETRY_EXC_ERR | – |

## 10 Memory

- **10-1** A key has 32 bits.

## Exceptions

- 6.5-3, 10-1: nobody can see it
`

func TestParseRules(t *testing.T) {
	r, err := ParseRules(sample)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range r.Sections {
		for _, rule := range s.Rules {
			got = append(got, s.Title+" | "+rule.ID+" | "+rule.Text)
		}
	}
	want := []string{
		"6.5 Retransmission | 6.5-1 | The timeout runs.",
		"6.5 Retransmission | 6.5-3 | Progress starts it again.",
		"6.5 Retransmission | 6.5-4 | retries used up; Status: RETRY_EXC_ERR",
		"10 Memory | 10-1 | A key has 32 bits.",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("rules (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]string{"6.5-3": "nobody can see it", "10-1": "nobody can see it"}, r.Exceptions); d != "" {
		t.Errorf("exceptions (-want +got):\n%s", d)
	}
	if r.Count() != 4 || !r.Has("6.5-4") || r.Has("6.5-2") {
		t.Errorf("%d rules, has 6.5-4: %v, has 6.5-2: %v", r.Count(), r.Has("6.5-4"), r.Has("6.5-2"))
	}
}

func TestParseRulesRefuses(t *testing.T) {
	for _, tt := range []struct{ name, old, new, want string }{
		{"an id twice", "**6.5-3**", "**6.5-1**", "line 10: 6.5-1 is there twice"},
		{"another section's id", "**10-1**", "**11-1**", "line 18: 11-1 stands in section 10"},
		{"a list item that is no rule", "- **10-1** A", "- **ten** A", "line 18: not a rule"},
		{"a row that is no rule", "| **6.5-4** |", "| **four** |", "line 14: not a rule"},
		{"a rule without text", "- **10-1** A key has 32 bits.", "- **10-1** ", "line 18: not a rule"},
		{"an exception that is no rule", "6.5-3, 10-1:", "6.5-3, 10-2:", "10-2 is excepted, but is not a rule"},
		{"an exception without a reason", ": nobody can see it", "", "line 22: not an exception"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(sample, "Text with **6.5-3** in it.", "Text.", 1)
			_, err := ParseRules(strings.Replace(text, tt.old, tt.new, 1))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestRulesOfTheModule(t *testing.T) {
	r, err := LoadRules()
	if err != nil {
		t.Fatal(err)
	}
	if r.Count() < 200 {
		t.Errorf("%s has %d rules, want 200 at least", RulesFile, r.Count())
	}
}

// fakeTest is a test that only remembers.
type fakeTest struct {
	testing.TB
	attrs  []string
	failed string
}

func (f *fakeTest) Helper()                {}
func (f *fakeTest) Attr(key, value string) { f.attrs = append(f.attrs, key+"="+value) }
func (f *fakeTest) Fatal(args ...any)      { f.failed = fmt.Sprint(args...); runtime.Goexit() }
func (f *fakeTest) Fatalf(format string, args ...any) {
	f.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestRule(t *testing.T) {
	for _, tt := range []struct {
		name   string
		ids    []string
		attrs  []string
		failed string
	}{
		{"one", []string{"6.5-1"}, []string{"rule=6.5-1"}, ""},
		{"two", []string{"6.5-1", "10-1"}, []string{"rule=6.5-1", "rule=10-1"}, ""},
		{"unknown", []string{"6.5-999"}, nil, "docs/rules.md has no rule 6.5-999"},
		{"none", nil, nil, "no rule named"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fakeTest{}
			done := make(chan struct{})
			go func() {
				defer close(done)
				Rule(f, tt.ids...)
			}()
			<-done
			if d := cmp.Diff(tt.attrs, f.attrs); d != "" || f.failed != tt.failed {
				t.Errorf("attributes %v, failed %q, want %v and %q", f.attrs, f.failed, tt.attrs, tt.failed)
			}
		})
	}
}
