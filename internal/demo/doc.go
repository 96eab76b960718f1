// Package demo shows the whole of a device on one machine: two network
// namespaces joined by a veth pair, a device on each, a reliable connection
// between them, every operation on random data with memory compared, what the
// XDP programs counted, and how latency and bandwidth compare with TCP over the
// same pair. Nothing of it is left when Run returns.
package demo
