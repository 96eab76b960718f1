package demo

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/perf"
)

// Bar is one bar of a histogram: how many samples lie from From up to To.
type Bar struct {
	From  float64 `json:"from_us"`
	To    float64 `json:"to_us"` // 0: the last bar, which has no end
	Count int     `json:"count"`
}

const (
	barsPerDecade = 10
	maxBars       = 20
	barWidth      = 50 // characters
)

// mantissas are ten steps of a decade, in tenths: the series R10 of ISO 3.
var mantissas = [barsPerDecade]float64{10, 13, 16, 20, 25, 32, 40, 50, 63, 79}

// edge is the i-th limit between bars, in microseconds: 1, 1.3, 1.6, 2 and so on
// from 0 upwards, smaller values below.
func edge(i int) float64 {
	decade := int(math.Floor(float64(i) / barsPerDecade))
	m := mantissas[i-decade*barsPerDecade]
	if decade < 1 {
		return m / math.Pow10(1-decade)
	}
	return m * math.Pow10(decade-1)
}

// histogram spreads samples, in nanoseconds, over bars whose width grows with
// the value, from the smallest sample to the 99.9th percentile and at most
// maxBars of them; a last bar takes the rest.
func histogram(samples []int64) []Bar {
	if len(samples) == 0 {
		return nil
	}
	s := slices.Clone(samples)
	slices.Sort(s)
	first := 0
	for edge(first) > float64(max(s[0], 1))/1e3 {
		first--
	}
	for edge(first+1) <= float64(s[0])/1e3 {
		first++
	}
	end := max(float64(perf.Quantile(s, 0.999))/1e3, edge(first))
	var out []Bar
	i := 0
	for k := first; i < len(s) && len(out) < maxBars && edge(k) <= end; k++ {
		b := Bar{From: edge(k), To: edge(k + 1)}
		for i < len(s) && float64(s[i])/1e3 < b.To {
			b.Count++
			i++
		}
		out = append(out, b)
	}
	if i < len(s) {
		out = append(out, Bar{From: out[len(out)-1].To, Count: len(s) - i})
	}
	return out
}

// printHistogram draws bars of at most barWidth characters; a bar that is not
// empty has at least one.
func printHistogram(w io.Writer, hist []Bar) {
	most, total := 0, 0
	for _, b := range hist {
		most = max(most, b.Count)
		total += b.Count
	}
	for _, b := range hist {
		label := fmt.Sprintf("%7.4g to %7.4g us", b.From, b.To)
		if b.To == 0 {
			label = fmt.Sprintf("%7.4g us or more  ", b.From)
		}
		n := int(math.Ceil(float64(b.Count) * barWidth / float64(most)))
		line := fmt.Sprintf("  %s %6.2f %% %s", label, 100*float64(b.Count)/float64(total), strings.Repeat("#", n))
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}
