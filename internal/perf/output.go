package perf

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/connect"
)

// Output prints a test: as perftest does, row by row, or as one JSON object at
// its end.
type Output struct {
	W     io.Writer
	JSON  bool
	Gbits bool // bandwidth in Gb/sec (10^9 bits) instead of MB/sec (2^20 bytes)
}

var line = strings.Repeat("-", 87)

var onOff = map[bool]string{true: "ON", false: "OFF"}

// start prints the headline, the parameters and the endpoints.
func (o Output) start(r *Report) {
	if o.JSON {
		return
	}
	fmt.Fprintln(o.W, line)
	fmt.Fprintf(o.W, "%*s\n", (len(line)+len(r.Title))/2, r.Title)
	left := []string{
		"Device          : " + r.Device,
		fmt.Sprintf("Number of qps   : %d", r.Params.QPs),
		"Connection type : RC",
		fmt.Sprintf("TX depth        : %d", r.Params.TxDepth),
		fmt.Sprintf("CQ Moderation   : %d", r.Params.CQMod),
		"rdma_cm QPs     : " + onOff[r.Params.RDMACM],
	}
	right := []string{
		"XDP mode        : " + r.XDPMode,
		"Zero-copy       : " + onOff[r.ZeroCopy],
		fmt.Sprintf("Link MTU        : %d[B]", r.LinkMTU),
		fmt.Sprintf("Mtu             : %d[B]", r.Params.MTU),
		fmt.Sprintf("Max inline data : %d[B]", r.Params.Inline),
		"Data ex. method : Ethernet",
	}
	for i := range left {
		fmt.Fprintf(o.W, " %-38s %s\n", left[i], right[i])
	}
	fmt.Fprintln(o.W, line)
	for i := range r.Local {
		o.endpoint("local", r.Local[i])
		if i < len(r.Remote) {
			o.endpoint("remote", r.Remote[i])
		}
	}
	fmt.Fprintln(o.W, line)
	fmt.Fprintln(o.W, o.header(r))
}

func (o Output) endpoint(side string, e connect.Endpoint) {
	fmt.Fprintf(o.W, " %s address: LID 0000 QPN 0x%04x PSN 0x%04x RKey 0x%06x VAddr 0x%014x\n", side, e.QPN, e.PSN, e.RKey, e.Addr)
	fmt.Fprintf(o.W, " GID: %s\n", e.GID)
}

func (o Output) header(r *Report) string {
	if r.Params.Test.Latency {
		return " #bytes     #iterations    t_min[usec]    t_max[usec]    t_typical[usec]    t_avg[usec]    t_stdev[usec]    99% percentile[usec]    99.9% percentile[usec]"
	}
	unit := "MB/sec"
	if o.Gbits {
		unit = "Gb/sec"
	}
	return fmt.Sprintf(" #bytes     #iterations    BW peak[%s]    BW average[%s]    MsgRate[Mpps]", unit, unit)
}

// bandwidth prints a row of a bandwidth test.
func (o Output) bandwidth(b Bandwidth) {
	if o.JSON {
		return
	}
	scale := 1 / float64(1<<20)
	if o.Gbits {
		scale = 8 / 1e9
	}
	fmt.Fprintf(o.W, " %-10d %-14d %-18.2f %-20.2f %.6f\n", b.Bytes, b.Iterations, b.Peak*scale, b.Avg*scale, b.Rate/1e6)
}

// latency prints a row of a latency test.
func (o Output) latency(l Latency) {
	if o.JSON {
		return
	}
	fmt.Fprintf(o.W, " %-10d %-14d %-14.2f %-14.2f %-18.2f %-14.2f %-16.2f %-23.2f %.2f\n",
		l.Bytes, l.Iterations, l.Min, l.Max, l.Typical, l.Avg, l.Stdev, l.P99, l.P999)
}

// finish ends the output.
func (o Output) finish(r *Report) error {
	if !o.JSON {
		_, err := fmt.Fprintln(o.W, line)
		return err
	}
	enc := json.NewEncoder(o.W)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
