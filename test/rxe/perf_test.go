package main

import (
	"strings"
	"testing"
)

// Figures come from the tables of perftest, which ours are like.
func TestFigure(t *testing.T) {
	const bandwidth = ` #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
 65536      200              5.27               4.51   		     0.000072
---------------------------------------------------------------------------------------
`
	const latency = ` #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]
 64      1000          201.10         9000.5       250.25              300.00           20
`
	for _, c := range []struct {
		name string
		b    *bout
		text string
		want float64
		bad  bool
	}{
		{"bandwidth", &bouts[0], bandwidth, 4.51, false},
		{"latency", &bouts[3], latency, 250.25, false},
		{"another size", &bouts[3], bandwidth, 0, true},
		{"nothing", &bouts[0], "Couldn't connect to 10.77.0.11:18515\n", 0, true},
		{"half a line", &bouts[0], " 65536 200\n", 0, true},
		{"no number", &bouts[0], " 65536 200 5.27 -\n", 0, true},
		{"zero", &bouts[0], " 65536 200 0.00 0.00 0.0\n", 0, true},
	} {
		got, err := c.b.figure(c.text)
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}

// Both stacks get the same options.
func TestPerfLines(t *testing.T) {
	for _, b := range bouts {
		ours, theirs := b.lines()[0], b.lines()[1]
		if !strings.HasPrefix(theirs, "ib_"+strings.ReplaceAll(b.ours, "-", "_")+" ") {
			t.Errorf("%s is compared with %s", b.ours, theirs)
		}
		_, of, _ := strings.Cut(ours, "-F")
		if _, than, ok := strings.Cut(theirs, "-F"); !ok || of != than || of == "" {
			t.Errorf("options differ: %q and %q", ours, theirs)
		}
	}
}

// Ratios are taken round by round.
func TestPrintPerf(t *testing.T) {
	values := make([][2][]float64, len(bouts))
	for i := range values {
		values[i] = [2][]float64{{2, 9, 4, 8}, {1, 3, 4, 16}}
	}
	var out strings.Builder
	printPerf(&out, values)
	line := strings.Split(out.String(), "\n")[1]
	if got := strings.Join(strings.Fields(line), " "); got != "write-bw 65536 6 3.5 MB/s 1.50 0.50–3.00" {
		t.Errorf("got %q", got)
	}
}
