package pingpong

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/roce-xdp/roce-xdp/internal/connect"
)

// printAddress prints a line as the C programs do: an IPv4 address in its mapped
// form, and in one line of ibv_ud_pingpong a colon in place of a comma.
func (s *side) printAddress(label string, e connect.Endpoint, colon bool) {
	if s.JSON {
		return
	}
	mark := ','
	if colon {
		mark = ':'
	}
	fmt.Fprintf(s.Out, "%sLID 0x%04x, QPN 0x%06x, PSN 0x%06x%c GID %s\n", label, 0, e.QPN, e.PSN, mark, netip.AddrFrom16(e.GID.As16()))
}

// printResult prints the two lines at the end, or the JSON object.
func (s *side) printResult(res *Result) error {
	return s.printSummary(res, res.Local, res.Remote)
}

// printSummary is printResult with what a JSON object says of the two ends.
func (s *side) printSummary(res *Result, local, remote any) error {
	us := float64(res.Elapsed.Nanoseconds()) / 1e3
	if s.JSON {
		enc := json.NewEncoder(s.Out)
		enc.SetIndent("", "  ")
		return enc.Encode(map[string]any{
			"local": local, "remote": remote, "bytes": res.Bytes, "iters": res.Iters,
			"seconds": res.Elapsed.Seconds(), "mbit_per_second": float64(res.Bytes) * 8 / us,
			"usec_per_iter": us / float64(res.Iters), "valid": res.ValidationPage < 0,
		})
	}
	fmt.Fprintf(s.Out, "%d bytes in %.2f seconds = %.2f Mbit/sec\n", res.Bytes, us/1e6, float64(res.Bytes)*8/us)
	_, err := fmt.Fprintf(s.Out, "%d iters in %.2f seconds = %.2f usec/iter\n", res.Iters, us/1e6, us/float64(res.Iters))
	if res.ValidationPage >= 0 {
		_, err = fmt.Fprintf(s.Out, "invalid data in page %d\n", res.ValidationPage)
	}
	return err
}
