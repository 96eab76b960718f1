package demo

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Bar is one bar of a histogram: how many samples lie from From up to To.
type Bar struct {
	From  float64 `json:"from_us"`
	To    float64 `json:"to_us"` // the last bar has no end: +Inf is written as 0
	Count int     `json:"count"`
}

const (
	bars     = 16
	barWidth = 50
)

// histogram spreads samples, in nanoseconds, over bars of equal width from the
// smallest to the 99th percentile; a last bar takes the rest.
func histogram(samples []int64) []Bar {
	if len(samples) == 0 {
		return nil
	}
	s := slices.Clone(samples)
	slices.Sort(s)
	low, high := s[0], s[int(float64(len(s)-1)*0.99)]
	width := niceWidth(float64(high-low) / 1e3 / bars)
	from := math.Floor(float64(low)/1e3/width) * width
	var out []Bar
	i := 0
	for i < len(s) && len(out) < bars+1 && float64(s[i])/1e3 < float64(high)/1e3+width {
		b := Bar{From: from + float64(len(out))*width}
		b.To = b.From + width
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

// niceWidth rounds up to 1, 2 or 5 times a power of ten, at least 0.1.
func niceWidth(w float64) float64 {
	unit := 0.1
	for {
		for _, m := range []float64{1, 2, 5} {
			if unit*m >= w {
				return unit * m
			}
		}
		unit *= 10
	}
}

// printHistogram draws bars of at most barWidth characters.
func printHistogram(w io.Writer, hist []Bar) {
	most, total := 0, 0
	for _, b := range hist {
		most = max(most, b.Count)
		total += b.Count
	}
	for _, b := range hist {
		label := fmt.Sprintf("%7.1f to %7.1f us", b.From, b.To)
		if b.To == 0 {
			label = fmt.Sprintf("%7.1f us and more ", b.From)
		}
		n := int(math.Ceil(float64(b.Count) * barWidth / float64(most)))
		fmt.Fprintf(w, "  %s %6.2f %% %s\n", label, 100*float64(b.Count)/float64(total), strings.Repeat("#", n))
	}
}
