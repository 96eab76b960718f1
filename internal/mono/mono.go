// Package mono has the clock type of the engine: monotonic nanoseconds in an
// int64. The package reads no clock; who owns one passes the time in.
package mono

import "time"

// Time is nanoseconds since an arbitrary origin that is fixed for a process
// (or for a simulation). The zero value means "not set".
type Time int64

// Never is later than every time; as a deadline it means "none".
const Never = Time(1<<63 - 1)

// Add is t plus d, at most Never.
func (t Time) Add(d time.Duration) Time {
	if s := t + Time(d); s >= t || d < 0 {
		return s
	}
	return Never
}

// Sub is the duration from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Min is the earlier of t and u.
func Min(t, u Time) Time {
	if t < u {
		return t
	}
	return u
}
