package perf

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/connect"
)

func sampleReport(test string) *Report {
	p, err := Params{Test: mustTest(test), MTU: 4096}.Complete()
	if err != nil {
		panic(err)
	}
	return &Report{
		Test: test, Title: p.Test.Title(), Device: "eth0", XDPMode: "native", LinkMTU: 9000, Params: p,
		Local:  []connect.Endpoint{{QPN: 0x11, PSN: 0xabcdef, GID: netip.MustParseAddr("192.0.2.1"), Addr: 0x7f0000001000, RKey: 0x1234}},
		Remote: []connect.Endpoint{{QPN: 0x12, PSN: 1, GID: netip.MustParseAddr("192.0.2.2"), Addr: 0x7f0000002000, RKey: 0x5678}},
	}
}

// tail is what comes after the endpoints.
func tail(s string) []string {
	parts := strings.Split(strings.TrimSpace(s), line)
	return strings.Split(strings.Trim(parts[len(parts)-2], "\n"), "\n")
}

func TestOutputBandwidth(t *testing.T) {
	tests := []struct {
		name  string
		gbits bool
		want  []string
	}{
		{"MB/sec", false, []string{
			" #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]    MsgRate[Mpps]",
			" 65536      5000           1000.00            500.00               0.008000",
		}},
		{"Gb/sec", true, []string{
			" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]    MsgRate[Mpps]",
			" 65536      5000           8.39               4.19                 0.008000",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var w strings.Builder
			o := Output{W: &w, Gbits: tt.gbits}
			r := sampleReport("write-bw")
			o.start(r)
			o.bandwidth(Bandwidth{Bytes: 65536, Iterations: 5000, Peak: 1000 << 20, Avg: 500 << 20, Rate: 8000})
			if err := o.finish(r); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, tail(w.String())); d != "" {
				t.Error(d)
			}
			for _, want := range []string{
				"RDMA_Write BW Test", "Mtu             : 4096[B]", "XDP mode        : native", "rdma_cm QPs     : OFF",
				" local address: LID 0000 QPN 0x0011 PSN 0xabcdef RKey 0x001234 VAddr 0x007f0000001000",
				" GID: 192.0.2.2",
			} {
				if !strings.Contains(w.String(), want) {
					t.Errorf("output has no %q:\n%s", want, w.String())
				}
			}
		})
	}
}

func TestOutputLatency(t *testing.T) {
	var w strings.Builder
	o := Output{W: &w}
	r := sampleReport("send-lat")
	o.start(r)
	o.latency(Latency{Bytes: 2, Iterations: 999, Min: 3, Max: 40.125, Typical: 4.5, Avg: 5, Stdev: 1, P99: 9, P999: 39})
	if err := o.finish(r); err != nil {
		t.Fatal(err)
	}
	want := []string{
		" #bytes     #iterations    t_min[usec]    t_max[usec]    t_typical[usec]    t_avg[usec]    t_stdev[usec]    99% percentile[usec]    99.9% percentile[usec]",
		" 2          999            3.00           40.12          4.50               5.00           1.00             9.00                    39.00",
	}
	if d := cmp.Diff(want, tail(w.String())); d != "" {
		t.Error(d)
	}
}

func TestOutputJSON(t *testing.T) {
	var w strings.Builder
	o := Output{W: &w, JSON: true}
	r := sampleReport("write-lat")
	r.Latency = []Latency{{Bytes: 2, Iterations: 10, Typical: 4.5}}
	o.start(r)
	o.latency(r.Latency[0])
	if err := o.finish(r); err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal([]byte(w.String()), &got); err != nil {
		t.Fatalf("not one JSON object: %v\n%s", err, w.String())
	}
	r.Title = "" // is for people
	if d := cmp.Diff(*r, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Error(d)
	}
}
