// Package ping is what `roce-xdp ping` does: rping of librdmacm, both ends of it,
// so that the other may be that program over any RDMA device.
//
// A round is two messages of the client that name memory, 16 bytes each, and the
// server's answers: it READs the first, the source, says so by a message, WRITEs what it
// has read to the second, the sink, and says so. The ends go in lockstep.
package ping
