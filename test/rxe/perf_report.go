package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// spread is the median of a series, and its ends.
type spread struct{ median, least, most float64 }

func spreadOf(v []float64) spread {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	return spread{(s[(n-1)/2] + s[n/2]) / 2, s[0], s[n-1]}
}

// printPerf prints medians and the ratios of rounds, whose two parts were
// measured within seconds of each other; values are those of each bout, ours and
// then theirs. A smaller latency is the better one.
func printPerf(out io.Writer, values [][2][]float64) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "test\tbytes\tours\trdma_rxe\tunit\tours/rxe\tmin–max")
	for i := range bouts {
		b, v := &bouts[i], &values[i]
		var ratios []float64
		for k := range v[0] {
			ratios = append(ratios, v[0][k]/v[1][k])
		}
		r := spreadOf(ratios)
		fmt.Fprintf(t, "%s\t%d\t%.4g\t%.4g\t%s\t%.2f\t%.2f–%.2f\n",
			b.ours, b.size, spreadOf(v[0]).median, spreadOf(v[1]).median, b.unit, r.median, r.least, r.most)
	}
	_ = t.Flush()
}
