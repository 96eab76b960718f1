// Package queue has the layout of work queue entries and completion queue
// entries, and the single-producer single-consumer ring that carries them. The
// same bytes serve a program that links the datapath and one that shares memory
// with a daemon, so the layout is an ABI: fixed offsets, little-endian numbers,
// no pointers.
//
// A ring is one block of memory:
//
//	offset   0  element size in bytes, u32
//	offset   4  index mask (number of elements - 1), u32
//	offset 128  producer index, u32, written by the producer only
//	offset 256  consumer index, u32, written by the consumer only
//	offset 260  arm word, u32, written by the consumer: which completions wake it
//	offset 384  elements
//
// Indices run freely over 32 bits. Each side keeps its own index privately and
// never reads it back from the shared words; of the other side it reads only
// the index and takes no more than the ring can hold.
//
// A client that shares memory with a daemon says by Bells which of its queues have
// something new, and learns from States whether the worker that looks at them has to
// be woken for it. All accesses to shared words are sequentially consistent.
package queue
