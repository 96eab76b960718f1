package main

import (
	"slices"
	"time"
)

// series are the values of one quantity, one from each round.
type series []float64

// summary is what of a series goes into the results.
type summary struct {
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	Values []float64 `json:"values"` // one for each round
	Unit   string    `json:"unit"`
}

func (s series) summarize(unit string) summary {
	sorted := slices.Sorted(slices.Values(s))
	if len(sorted) == 0 {
		return summary{Unit: unit}
	}
	return summary{Median: median(sorted), Min: sorted[0], Max: sorted[len(sorted)-1], Values: s, Unit: unit}
}

func median(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// percentiles are those of one measurement.
func percentiles(d []time.Duration) (p50, p99 time.Duration) {
	if len(d) == 0 {
		return 0, 0
	}
	s := slices.Sorted(slices.Values(d))
	return s[(len(s)-1)/2], s[(len(s)-1)*99/100]
}

// ratios divides round by round: both values of a ratio were measured within
// seconds of each other, whatever the machine did in other rounds.
func ratios(a, b series) series {
	var out series
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			out = append(out, a[i]/b[i])
		}
	}
	return out
}
