package perf

import (
	"math"
	"slices"
	"time"
)

// Latency summarizes samples; times are in microseconds.
type Latency struct {
	Bytes      int     `json:"bytes"`
	Iterations int64   `json:"iterations"`
	Min        float64 `json:"t_min"`
	Max        float64 `json:"t_max"`
	Typical    float64 `json:"t_typical"` // the median
	Avg        float64 `json:"t_avg"`
	Stdev      float64 `json:"t_stdev"`
	P99        float64 `json:"p99"`
	P999       float64 `json:"p99_9"`
}

// Summarize sorts samples, in nanoseconds, and summarizes them.
func Summarize(bytes int, samples []int64) Latency {
	l := Latency{Bytes: bytes, Iterations: int64(len(samples))}
	if len(samples) == 0 {
		return l
	}
	slices.Sort(samples)
	var sum float64
	for _, s := range samples {
		sum += float64(s)
	}
	mean := sum / float64(len(samples))
	var squares float64
	for _, s := range samples {
		squares += (float64(s) - mean) * (float64(s) - mean)
	}
	const us = 1e3
	l.Min = float64(samples[0]) / us
	l.Max = float64(samples[len(samples)-1]) / us
	l.Typical = float64(Quantile(samples, 0.5)) / us
	l.Avg = mean / us
	l.Stdev = math.Sqrt(squares/float64(len(samples))) / us
	l.P99 = float64(Quantile(samples, 0.99)) / us
	l.P999 = float64(Quantile(samples, 0.999)) / us
	return l
}

// Quantile is the smallest sample that at least the fraction q of the sorted
// samples does not exceed.
func Quantile(sorted []int64, q float64) int64 {
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// Bandwidth is the result of a bandwidth test at one message size.
type Bandwidth struct {
	Bytes      int     `json:"bytes"`
	Iterations int64   `json:"iterations"` // messages of all queue pairs, both ways
	Peak       float64 `json:"peak_bytes_per_second"`
	Avg        float64 `json:"avg_bytes_per_second"`
	Rate       float64 `json:"messages_per_second"`
}

// add joins what the other direction reached in the same time.
func (b *Bandwidth) add(o Bandwidth) {
	b.Iterations += o.Iterations
	b.Peak += o.Peak
	b.Avg += o.Avg
	b.Rate += o.Rate
}

// mark is how many messages had completed at a time.
type mark struct {
	at   time.Duration // since the first request was posted
	done int64
}

// rate turns the marks of a run, the first of which is its start, into a result.
// The peak is the best stretch of at least window messages.
func rate(bytes int, marks []mark, window int64) Bandwidth {
	b := Bandwidth{Bytes: bytes}
	if len(marks) < 2 {
		return b
	}
	first, last := marks[0], marks[len(marks)-1]
	b.Iterations = last.done - first.done
	if last.at > first.at {
		b.Rate = float64(b.Iterations) / (last.at - first.at).Seconds()
	}
	peak := b.Rate
	from := 0
	for to := 1; to < len(marks); to++ {
		for from+1 < to && marks[to].done-marks[from+1].done >= window {
			from++
		}
		n, dt := marks[to].done-marks[from].done, marks[to].at-marks[from].at
		if n >= window && dt > 0 {
			peak = max(peak, float64(n)/dt.Seconds())
		}
	}
	b.Avg, b.Peak = b.Rate*float64(bytes), peak*float64(bytes)
	return b
}
