package main

import (
	"slices"
	"testing"
	"time"
)

func TestSummarize(t *testing.T) {
	s := series{3, 1, 2}.summarize("us")
	if s.Median != 2 || s.Min != 1 || s.Max != 3 || !slices.Equal(s.Values, []float64{3, 1, 2}) || s.Unit != "us" {
		t.Errorf("%+v", s)
	}
	if s := (series{4, 1}).summarize(""); s.Median != 2.5 {
		t.Errorf("median of two is %v, want 2.5", s.Median)
	}
	if s := (series{}).summarize("us"); s.Median != 0 || s.Values != nil {
		t.Errorf("nothing measured gives %+v", s)
	}
}

func TestRatiosGoRoundByRound(t *testing.T) {
	if got := ratios(series{2, 9, 5}, series{1, 3, 0}); !slices.Equal(got, []float64{2, 3}) {
		t.Errorf("%v, want [2 3]", got)
	}
}

func TestPercentiles(t *testing.T) {
	d := make([]time.Duration, 100)
	for i := range d {
		d[99-i] = time.Duration(i + 1)
	}
	if p50, p99 := percentiles(d); p50 != 50 || p99 != 99 {
		t.Errorf("p50 %d, p99 %d; want 50 and 99", p50, p99)
	}
}

func TestSockperfOutput(t *testing.T) {
	const line = "sockperf: ---> percentile 99.000 =   21.337"
	m := percentile.FindStringSubmatch(line)
	if m == nil || m[1] != "99" || m[2] != "21.337" {
		t.Errorf("%q is read as %q", line, m)
	}
	if m := percentile.FindStringSubmatch("sockperf: ---> percentile 99.900 = 3"); m != nil {
		t.Errorf("99.9 is taken for %q", m[1])
	}
}
