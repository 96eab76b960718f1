// Package shm has what two processes on one machine share: sealed files of memory,
// sockets that carry messages and descriptors, and the two ways to wake each other.
//
// [Memory] is a memfd that can neither shrink nor grow, so a mapping of it never
// loses its pages under who touches it. [Segments] gives out pieces of a client's
// few large ones. [Conn] is a SEQPACKET socket; a packet is a message.
//
// # Waking without being held up
//
// A descriptor that two processes have is one open file: its flags are common, so
// O_NONBLOCK is no promise, as the other side can take it away. A process that must
// not wait for the other therefore never writes to, or reads from, such a file.
// [Notifier] sends on a socket of its own without waiting; its peer sees the end of
// the sender too, as the end of the stream. [Eventfd] is for the opposite way: the
// client writes, and the daemon has it in an epoll set, edge-triggered, and never
// reads it.
package shm
