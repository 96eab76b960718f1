package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"text/tabwriter"

	"golang.org/x/sys/unix"
)

// ratio is a comparison that the project makes a claim about.
type ratio struct {
	Name   string  `json:"name"`
	Of     string  `json:"of"`
	Over   string  `json:"over"`
	Target float64 `json:"target,omitempty"` // 0: none
	Most   bool    `json:"target_is_upper_bound,omitempty"`
	summary
}

// claims are the ratios, with their targets on a machine of two cores.
func claims() []ratio {
	return []ratio{
		{Name: "write_lat_over_raw", Of: "write_rtt_64_p50", Over: "raw_rtt_64_p50", Target: 1.6, Most: true},
		{Name: "write_lat_over_tcp_polling", Of: "write_rtt_64_p50", Over: "tcp_rtt_polling_p50", Target: 1, Most: true},
		{Name: "write_lat_over_tcp_blocking", Of: "write_rtt_64_p50", Over: "tcp_rtt_blocking_p50", Target: 1, Most: true},
		{Name: "write_lat_over_tcp_xdp_polling", Of: "write_rtt_64_p50", Over: "tcp_rtt_polling_xdp_p50"},
		{Name: "write_lat_over_udp_polling", Of: "write_rtt_64_p50", Over: "udp_rtt_polling_p50"},
		{Name: "send_lat_over_raw", Of: "send_rtt_64_p50", Over: "raw_rtt_64_p50"},
		{Name: "write_bw_over_raw", Of: "write_bw_64k", Over: "raw_bw_4096", Target: 0.6},
		{Name: "write_bw_1m_over_raw", Of: "write_bw_1m", Over: "raw_bw_4096"},
		{Name: "send_bw_over_raw", Of: "send_bw_64k", Over: "raw_bw_4096"},
		{Name: "read_bw_over_raw", Of: "read_bw_64k", Over: "raw_bw_4096"},
		{Name: "write_bw_over_tcp", Of: "write_bw_64k", Over: "tcp_bw"},
		{Name: "write_bw_over_tcp_xdp", Of: "write_bw_64k", Over: "tcp_bw_xdp", Target: 1},
		{Name: "write_rate_over_raw", Of: "write_rate_64", Over: "raw_rate_64"},
		{Name: "rate_10000_qps_over_1", Of: "rate_10000_qps", Over: "rate_1_qp", Target: 0.85},
		{Name: "daemon_write_lat_over_inprocess", Of: "daemon_write_rtt_64_p50", Over: "write_rtt_64_p50", Target: 2.5, Most: true},
		{Name: "daemon_write_rate_over_inprocess", Of: "daemon_write_rate_64", Over: "write_rate_64", Target: 0.6},
		{Name: "daemon_write_bw_over_inprocess", Of: "daemon_write_bw_64k", Over: "write_bw_64k"},
		{Name: "raw_rtt_over_two_kicks", Of: "raw_rtt_64_p50", Over: "raw_two_kicks_64", Target: 2, Most: true},
	}
}

// results is what results.json holds.
type results struct {
	Kernel  string             `json:"kernel"`
	CPUs    int                `json:"cpus"`
	Go      string             `json:"go"`
	Rounds  int                `json:"rounds"`
	Ratios  []ratio            `json:"ratios"`
	Figures map[string]summary `json:"figures"`
	order   []string
}

func (m *measures) results() *results {
	r := &results{Kernel: kernel(), CPUs: runtime.NumCPU(), Go: runtime.Version(), Figures: map[string]summary{}, order: m.order}
	for _, name := range m.order {
		r.Figures[name] = m.values[name].summarize(m.units[name])
		r.Rounds = len(m.values[name])
	}
	for _, c := range claims() {
		if len(m.values[c.Of]) == 0 || len(m.values[c.Over]) == 0 {
			continue // its parts were not measured
		}
		c.summary = ratios(m.values[c.Of], m.values[c.Over]).summarize("ratio")
		r.Ratios = append(r.Ratios, c)
	}
	return r
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

func (r *results) write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// met reports whether the median reaches the target; a ratio without one does.
func (c *ratio) met() bool {
	switch {
	case c.Target == 0:
		return true
	case c.Most:
		return c.Median <= c.Target && c.Median > 0
	default:
		return c.Median >= c.Target
	}
}

func (c *ratio) goal() string {
	switch {
	case c.Target == 0:
		return ""
	case c.Most:
		return fmt.Sprintf("at most %g", c.Target)
	default:
		return fmt.Sprintf("at least %g", c.Target)
	}
}

func (r *results) print(w io.Writer) {
	fmt.Fprintf(w, "Linux %s, %d CPUs, %s, %d rounds; medians, with the smallest and largest round\n\n", r.Kernel, r.CPUs, r.Go, r.Rounds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "figure\tmedian\tmin\tmax\tunit\t")
	for _, name := range r.order {
		f := r.Figures[name]
		fmt.Fprintf(t, "%s\t%.3g\t%.3g\t%.3g\t%s\t\n", name, f.Median, f.Min, f.Max, f.Unit)
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "ratio\tmedian\tmin\tmax\ttarget\t\t")
	for i := range r.Ratios {
		c := &r.Ratios[i]
		verdict := ""
		if c.Target != 0 {
			verdict = map[bool]string{true: "met", false: "MISSED"}[c.met()]
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%s\t%s\t\n", c.Name, c.Median, c.Min, c.Max, c.goal(), verdict)
	}
	_ = t.Flush()
}

// errTarget reports a missed target.
var errTarget = errors.New("targets missed")

func (r *results) check() error {
	missed := ""
	for i := range r.Ratios {
		if c := &r.Ratios[i]; !c.met() {
			missed += fmt.Sprintf(" %s %.2f (%s)", c.Name, math.Round(c.Median*100)/100, c.goal())
		}
	}
	if missed != "" {
		return fmt.Errorf("%w:%s", errTarget, missed)
	}
	return nil
}
