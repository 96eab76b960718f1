package ping

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
)

// Result is how a connection went.
type Result struct {
	Role   string // "client" or "server"
	Peer   string // address and port
	Size   int    // bytes each way in a round; server: in the last
	Rounds int    // that were complete
	Lost   int    // that were begun and not completed: 1 at most, as it ends the connection
	// Min, Max and the sum of the times of rounds, of a client. A round is two round trips
	// of messages, and a READ and a WRITE of the data.
	Min, Max, Sum time.Duration
}

// Avg is the mean time of a round.
func (r *Result) Avg() time.Duration {
	if r.Rounds == 0 {
		return 0
	}
	return r.Sum / time.Duration(r.Rounds)
}

func (r *Result) add(took time.Duration) {
	if r.Rounds == 0 || took < r.Min {
		r.Min = took
	}
	r.Max = max(r.Max, took)
	r.Sum += took
	r.Rounds++
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// report prints a result, and why it is no better: failure, which may be nil.
func (o *Options) report(r *Result, failure error) error {
	if o.JSON {
		object := map[string]any{"role": r.Role, "peer": r.Peer, "size": r.Size, "rounds": r.Rounds, "lost": r.Lost}
		if r.Role == "client" && r.Rounds > 0 {
			object["rtt_usec"] = map[string]float64{"min": micros(r.Min), "avg": micros(r.Avg()), "max": micros(r.Max)}
		}
		if failure != nil {
			object["error"] = failure.Error()
		}
		b, err := json.MarshalIndent(object, "", "  ")
		if err != nil {
			return err
		}
		_, err = o.Out.Write(append(b, '\n'))
		return err
	}
	line := fmt.Sprintf("%s: %d rounds of %d bytes, %d lost", r.Peer, r.Rounds, r.Size, r.Lost)
	if r.Role == "client" && r.Rounds > 0 {
		line += fmt.Sprintf(", rtt min/avg/max %.1f/%.1f/%.1f us", micros(r.Min), micros(r.Avg()), micros(r.Max))
	}
	_, err := fmt.Fprintln(o.Out, line)
	return err
}

func (o *Options) log(format string, args ...any) {
	if o.Log != nil {
		fmt.Fprintf(o.Log, format+"\n", args...)
	}
}

// describe says how a connection was made.
func (o *Options) describe(c *cm.Conn) error {
	if !o.Debug {
		return nil
	}
	q, err := c.QP().Query()
	if err != nil {
		return err
	}
	o.log("connected %v (qp %#06x) to %v (qp %#06x): path mtu %d, %d READs out and %d in, timeout %v, %d retries",
		c.LocalAddr(), c.QP().Num(), c.RemoteAddr(), q.DestQPN, q.PathMTU.Bytes(), q.MaxRDAtomic, q.MaxDestRDAtomic,
		4096*time.Nanosecond<<q.Timeout, q.RetryCnt)
	return nil
}

// sharedWriter is a writer of several goroutines; nothing is written when w is nil.
type sharedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sharedWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w == nil {
		return len(b), nil
	}
	return s.w.Write(b)
}
