package transport

import "time"

// rttMeter estimates how long an answer takes, from samples of answers whose
// question was asked only once (Karn's rule).
type rttMeter struct {
	mean, dev time.Duration // smoothed, as in RFC 6298
	peak      time.Duration // the longest of late
}

// known reports whether there was a sample.
func (m *rttMeter) known() bool { return m.mean != 0 }

// sample takes the time that one answer took.
func (m *rttMeter) sample(d time.Duration) {
	d = max(d, 1)
	m.peak = max(d, m.peak-m.peak/32)
	if m.mean == 0 {
		m.mean, m.dev = d, d/2
		return
	}
	off := d - m.mean
	m.mean += off / 8
	m.dev += (max(off, -off) - m.dev) / 4
}

// timeout is how long to wait for an answer that is known to be lost unless it has
// come by then.
func (m *rttMeter) timeout() time.Duration { return 2*m.mean + 4*m.dev }

// patience is how long an answer may take of which nothing says that it is lost.
func (m *rttMeter) patience() time.Duration { return max(16*m.mean, 4*m.peak) }
