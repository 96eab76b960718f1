// Package perf measures bandwidth and latency between two devices, with the
// tests, options and tables of perftest (ib_write_bw and its relatives). The two
// ends agree on what is measured over a TCP connection: the client says, the
// server follows.
//
// An End is one side: queue pairs, a buffer and the loops that send, answer and
// measure. Package demo uses two of them in one process.
package perf
