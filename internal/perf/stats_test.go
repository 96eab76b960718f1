package perf

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestSummarize(t *testing.T) {
	hundred := make([]int64, 100)
	for i := range hundred {
		hundred[i] = int64(100-i) * 1000 // unsorted: 100 us down to 1 us
	}
	tests := []struct {
		name    string
		samples []int64
		want    Latency
	}{
		{"none", nil, Latency{Bytes: 8}},
		{"one", []int64{2500}, Latency{8, 1, 2.5, 2.5, 2.5, 2.5, 0, 2.5, 2.5}},
		{"two", []int64{3000, 1000}, Latency{8, 2, 1, 3, 1, 2, 1, 3, 3}},
		{"hundred", hundred, Latency{8, 100, 1, 100, 50, 50.5, math.Sqrt(833.25), 99, 100}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, Summarize(8, tt.samples), cmpopts.EquateApprox(1e-9, 0)); d != "" {
				t.Error(d)
			}
		})
	}
}

// At least the fraction q of the samples does not exceed the quantile, and less
// than that lies below it.
func TestQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SliceOfN(rapid.Int64Range(0, 50), 1, 200).Draw(t, "samples")
		q := rapid.SampledFrom([]float64{0, 0.1, 0.5, 0.99, 0.999, 1}).Draw(t, "q")
		Summarize(1, s) // sorts
		v := Quantile(s, q)
		var notAbove, below int
		for _, x := range s {
			if x <= v {
				notAbove++
			}
			if x < v {
				below++
			}
		}
		n := float64(len(s))
		if float64(notAbove) < q*n-1e-9 || (q > 0 && float64(below) >= q*n) {
			t.Fatalf("quantile %v of %v is %d: %d are not above it, %d below", q, s, v, notAbove, below)
		}
	})
}

func TestRate(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	tests := []struct {
		name   string
		marks  []mark
		window int64
		want   Bandwidth
	}{
		{"nothing", nil, 1, Bandwidth{Bytes: 10}},
		{"start alone", []mark{{}}, 1, Bandwidth{Bytes: 10}},
		{"steady", []mark{{}, {ms(1), 10}, {ms(2), 20}}, 10, Bandwidth{10, 20, 1e5, 1e5, 1e4}},
		{"a fast stretch", []mark{{}, {ms(8), 10}, {ms(9), 20}, {ms(10), 30}}, 10, Bandwidth{10, 30, 1e5, 3e4, 3e3}},
		// Ten messages in a burst are less than the window and no peak.
		{"a burst", []mark{{}, {ms(9), 5}, {ms(9) + 1, 15}, {ms(10), 20}}, 20, Bandwidth{10, 20, 2e4, 2e4, 2e3}},
		{"window longer than the run", []mark{{}, {ms(10), 20}}, 100, Bandwidth{10, 20, 2e4, 2e4, 2e3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, rate(10, tt.marks, tt.window), cmpopts.EquateApprox(1e-9, 0)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRatePeakIsNeverBelowAverage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		marks := []mark{{}}
		for range rapid.IntRange(1, 50).Draw(t, "marks") {
			last := marks[len(marks)-1]
			marks = append(marks, mark{
				last.at + time.Duration(rapid.IntRange(0, 1000).Draw(t, "ns")),
				last.done + int64(rapid.IntRange(0, 20).Draw(t, "messages")),
			})
		}
		b := rate(100, marks, int64(rapid.IntRange(1, 60).Draw(t, "window")))
		if b.Peak < b.Avg {
			t.Fatalf("peak %v is below the average %v", b.Peak, b.Avg)
		}
	})
}

func TestLoadLast(t *testing.T) {
	b := make([]byte, 64)
	for i := range b {
		b[i] = byte(0xc0 + i)
	}
	for n := 1; n <= len(b); n++ {
		if got := loadLast(b[:n]); got != b[n-1] {
			t.Errorf("last of %d bytes is %#x, want %#x", n, got, b[n-1])
		}
	}
}
