// Package proto has the messages between a program and the daemon that owns its
// device: fixed-size records, little-endian, every field at a multiple of its size
// and no hidden padding, so that they are structures of C too (Header writes them
// as such). The layout is an ABI: a change of what exists is a new [Version].
//
// # Sockets
//
// Programs connect to a SEQPACKET unix socket; a message is a packet. [Hello] comes
// first and agrees on a version; then [OpDevices] lists what there is, or [OpOpen]
// opens a device, for good. From then on every request is answered by one reply with
// its sequence number, not in order: what takes time does not hold up the rest.
// Descriptors travel with the packet that names them (SCM_RIGHTS).
//
// What happens unasked arrives on sockets of its own, one record a packet, so that
// each can be waited for by itself: asynchronous events ([AsyncEvent]) on the one
// that OpOpen hands out, those of connections ([CMEvent]) on that of OpCMOpen.
// Each completion queue has a stream socket of its events: a byte for one that was
// raised, which may stand for more. All of these end with the daemon.
//
// A client is its sockets, not its process: it ends, with all it has, when the last
// descriptor of its connection is closed, in whichever process that is.
//
// # Memory
//
// Queues and buffers lie in segments, files of shared memory that the daemon makes
// and seals. A reply names memory by [Span]: segment, offset, size. Who does not have
// a segment mapped asks for its descriptor with [OpMapSegment]. A segment never
// shrinks, and lives as long as the client.
package proto
