// Package ring holds the single-producer single-consumer rings through which
// an AF_XDP socket and the kernel hand descriptors to each other.
//
// A ring is a power of two of entries and two free-running 32-bit indices, one
// written by each side. An entry belongs to the consumer from the moment the
// producer index passes it until the consumer index does. Producer and
// Consumer are the two sides; either may be opposite to the kernel (Map) or to
// the other type in the same memory (Pair).
//
// A side is used by one goroutine at a time. Only the methods that say so may
// be called from elsewhere.
package ring
