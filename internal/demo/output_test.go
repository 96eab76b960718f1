package demo

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/internal/perf"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestHistogramKeepsEverySample(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Int64Range(0, 1e9), 0, 500).Draw(t, "samples")
		total, end := 0, 0.0
		for i, b := range histogram(samples) {
			total += b.Count
			if i > 0 && b.From != end {
				t.Fatalf("bar %d begins at %v, the one before ends at %v", i, b.From, end)
			}
			end = b.To
		}
		if total != len(samples) {
			t.Fatalf("bars have %d of %d samples", total, len(samples))
		}
	})
}

func TestHistogram(t *testing.T) {
	tests := []struct {
		name    string
		samples []int64
		want    []Bar
	}{
		{"none", nil, nil},
		{"one", []int64{4200}, []Bar{{4, 5, 1}}},
		{"on an edge", []int64{5000}, []Bar{{5, 6.3, 1}}},
		{"two neighbours", []int64{4999, 5000, 5001}, []Bar{{4, 5, 1}, {5, 6.3, 2}}},
		{"a gap", []int64{1000, 2100}, []Bar{{1, 1.3, 1}, {1.3, 1.6, 0}, {1.6, 2, 0}, {2, 2.5, 1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, histogram(tt.samples)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestHistogramTail(t *testing.T) {
	samples := make([]int64, 2000)
	for i := range samples {
		samples[i] = 5500
	}
	samples[0] = 1e9 // one in two thousand is beyond the 99.9th percentile
	want := []Bar{{5, 6.3, 1999}, {6.3, 0, 1}}
	if d := cmp.Diff(want, histogram(samples)); d != "" {
		t.Error(d)
	}
	var out strings.Builder
	printHistogram(&out, want)
	lines := []string{
		"        5 to     6.3 us  99.95 % " + strings.Repeat("#", barWidth),
		"      6.3 us or more     0.05 % #",
	}
	if d := cmp.Diff(strings.Join(lines, "\n")+"\n", out.String()); d != "" {
		t.Error(d)
	}
}

func report() *Report {
	host := func(n int) Host {
		return Host{
			Namespace: fmt.Sprint("rxdp-1-", n), Device: "eth0", Address: fmt.Sprint("192.0.2.", n),
			XDPMode: "native", XDP: map[string]uint64{"redirect": uint64(n), "drop_qpn": 0},
		}
	}
	return &Report{
		LinkMTU: 9000, PathMTU: 4096, Queues: 1, A: host(1), B: host(2), Seconds: 1.5,
		Checks: []Check{
			{Operation: "SEND", Bytes: 0, Direction: "a to b"}, {Operation: "SEND", Bytes: 0, Direction: "b to a"},
			{Operation: "SEND", Bytes: 1<<20 - 1, Direction: "a to b"}, {Operation: "SEND", Bytes: 64 << 20, Direction: "a to b"},
			{Operation: "RDMA READ", Bytes: 4097, Direction: "a to b"},
		},
		Passed: 5,
		Latency: Latency{
			Write: perf.Latency{Bytes: 64, Iterations: 10, Typical: 4.56}, TCP: perf.Latency{Bytes: 64, Iterations: 10, Typical: 9.87},
			Histogram: []Bar{{4, 5, 10}},
		},
		Transfer: []Transfer{{"RDMA WRITE", 64 << 10, 1e9}, {"TCP", 1 << 20, 5e8}},
	}
}

func TestPrint(t *testing.T) {
	var out strings.Builder
	if err := report().Print(&out, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| eth0  192.0.2.1       |----- 1 queue ------| eth0  192.0.2.2       |",
		"|   path MTU 4096    |",
		"SEND                         0 1Mi-1 64Mi                                                   4 ok\n",
		"RDMA READ                    4097                                                           1 ok\n",
		"4 to       5 us 100.00 % ####",
		"RDMA WRITE                           64 KiB       1000       8.00         2.00\n",
		"TCP over the same link                1 MiB        500       4.00",
		"redirect                                      1              2\n",
		"all 5 checks passed in 1.5 s",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output has no %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "drop_qpn") {
		t.Error("output has a verdict that never occurred")
	}
}

func TestPrintFailure(t *testing.T) {
	r := report()
	r.Checks[4].Error, r.Passed, r.Failed = "byte 7 is wrong", 4, 1
	var out strings.Builder
	if err := r.Print(&out, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"FAILED 4097, a to b: byte 7 is wrong", "4 of 5 checks passed, 1 failed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output has no %q:\n%s", want, out.String())
		}
	}
}

// No check at all is no success.
func TestVerdictWithoutChecks(t *testing.T) {
	if got := (&Report{}).verdict(); got != "0 of 0 checks passed, 0 failed" {
		t.Errorf("verdict %q", got)
	}
}

func TestPrintJSON(t *testing.T) {
	var out strings.Builder
	if err := report().Print(&out, true); err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(*report(), got); d != "" {
		t.Error(d)
	}
}
