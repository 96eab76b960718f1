package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Print writes the report for people, or as JSON.
func (r *Report) Print(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	r.printHosts(w)
	r.printChecks(w)
	if r.Latency.Write.Iterations > 0 {
		r.printLatency(w)
	}
	if len(r.Transfer) > 0 {
		r.printTransfer(w)
	}
	if len(r.A.XDP) > 0 {
		r.printCounters(w)
	}
	_, err := fmt.Fprintln(w, r.verdict())
	return err
}

func (r *Report) verdict() string {
	n := r.Passed + r.Failed
	if r.Failed > 0 || n == 0 {
		return fmt.Sprintf("%d of %d checks passed, %d failed", r.Passed, n, r.Failed)
	}
	return fmt.Sprintf("all %d checks passed in %.1f s; namespaces, link and programs are removed", n, r.Seconds)
}

func (r *Report) printHosts(w io.Writer) {
	a, b := r.A, r.B
	link := fmt.Sprintf("veth, MTU %d", r.LinkMTU)
	queues := strconv.Itoa(r.Queues) + " queue"
	if r.Queues != 1 {
		queues += "s"
	}
	left := []string{a.Namespace, a.Device + "  " + a.Address, "XDP " + a.XDPMode + ", " + copyMode(a.ZeroCopy)}
	right := []string{b.Namespace, b.Device + "  " + b.Address, "XDP " + b.XDPMode + ", " + copyMode(b.ZeroCopy)}
	middle := []string{link, queues, fmt.Sprintf("path MTU %d", r.PathMTU)}
	width := 0
	for _, s := range slices.Concat(left, right) {
		width = max(width, len(s))
	}
	edge := "+" + strings.Repeat("-", width+2) + "+"
	fmt.Fprintf(w, "\n  %s%s%s\n", edge, strings.Repeat(" ", 20), edge)
	for i := range left {
		fill := " "
		if i == 1 {
			fill = "-"
		}
		fmt.Fprintf(w, "  | %-*s |%s| %-*s |\n", width, left[i], centre(middle[i], 20, fill), width, right[i])
	}
	fmt.Fprintf(w, "  %s%s%s\n\n", edge, strings.Repeat(" ", 20), edge)
}

func copyMode(zeroCopy bool) string {
	if zeroCopy {
		return "zero-copy"
	}
	return "copy mode"
}

// centre puts s between fill characters.
func centre(s string, width int, fill string) string {
	s = " " + s + " "
	left := max(width-len(s), 0) / 2
	return strings.Repeat(fill, left) + s + strings.Repeat(fill, max(width-len(s)-left, 0))
}

// printChecks prints one line for each operation.
func (r *Report) printChecks(w io.Writer) {
	fmt.Fprintf(w, "  %-28s %-62s %s\n", "operation, both directions", "bytes, memory compared", "result")
	for i := 0; i < len(r.Checks); {
		name, passed := r.Checks[i].Operation, 0
		var list []string
		failure := ""
		for ; i < len(r.Checks) && r.Checks[i].Operation == name; i++ {
			c := r.Checks[i]
			if n := sizeName(c.Bytes); !slices.Contains(list, n) {
				list = append(list, n)
			}
			if c.Error == "" {
				passed++
			} else {
				failure = fmt.Sprintf("FAILED %s, %s: %s", sizeName(c.Bytes), c.Direction, c.Error)
			}
		}
		result := fmt.Sprintf("%d ok", passed)
		if failure != "" {
			result = failure
		}
		fmt.Fprintf(w, "  %-28s %-62s %s\n", name, strings.Join(list, " "), result)
	}
	fmt.Fprintln(w)
}

// sizeName writes sizes from a mebibyte on as such.
func sizeName(n int) string {
	const mebi = 1 << 20
	switch {
	case n >= mebi && n%mebi == 0:
		return fmt.Sprintf("%dMi", n/mebi)
	case n > mebi/2 && (n+1)%mebi == 0:
		return fmt.Sprintf("%dMi-1", (n+1)/mebi)
	default:
		return strconv.Itoa(n)
	}
}

func (r *Report) printLatency(w io.Writer) {
	l := r.Latency
	fmt.Fprintf(w, "  latency of 64 bytes, half a round trip, us   %9s %9s %9s %9s %9s\n", "min", "median", "average", "99 %", "99.9 %")
	fmt.Fprintf(w, "  %-44s %9.1f %9.1f %9.1f %9.1f %9.1f\n", "RDMA WRITE, polling memory",
		l.Write.Min, l.Write.Typical, l.Write.Avg, l.Write.P99, l.Write.P999)
	fmt.Fprintf(w, "  %-44s %9.1f %9.1f %9.1f %9.1f %9.1f\n\n", "TCP over the same link, blocking",
		l.TCP.Min, l.TCP.Typical, l.TCP.Avg, l.TCP.P99, l.TCP.P999)
	printHistogram(w, l.Histogram)
	fmt.Fprintln(w)
}

func (r *Report) printTransfer(w io.Writer) {
	var tcp float64
	for _, t := range r.Transfer {
		if t.Name == "TCP" {
			tcp = t.Rate
		}
	}
	fmt.Fprintf(w, "  %-32s %10s %10s %10s %12s\n", "bandwidth, a to b", "message", "MB/s", "Gb/s", "against TCP")
	for _, t := range r.Transfer {
		name, against := t.Name, ""
		if t.Name == "TCP" {
			name = "TCP over the same link"
		} else if tcp > 0 {
			against = fmt.Sprintf("%.2f", t.Rate/tcp)
		}
		fmt.Fprintf(w, "  %-32s %10s %10.0f %10.2f %12s\n", name, kibi(t.Bytes), t.Rate/1e6, t.Rate*8/1e9, against)
	}
	fmt.Fprintln(w)
}

func kibi(n int) string {
	if n >= 1<<20 {
		return strconv.Itoa(n>>20) + " MiB"
	}
	return strconv.Itoa(n>>10) + " KiB"
}

// printCounters prints the verdicts that occurred at either end.
func (r *Report) printCounters(w io.Writer) {
	fmt.Fprintf(w, "  %-32s %14s %14s\n", "frames by verdict of the program", r.A.Device+" in a", r.B.Device+" in b")
	for _, name := range slices.Sorted(maps.Keys(r.A.XDP)) {
		if r.A.XDP[name] == 0 && r.B.XDP[name] == 0 {
			continue
		}
		fmt.Fprintf(w, "  %-32s %14d %14d\n", name, r.A.XDP[name], r.B.XDP[name])
	}
	fmt.Fprintln(w)
}
