// Package wire has the bytes of RoCEv2: headers, the opcode table, the
// invariant CRC, and the frame parser and frame template of the datapath.
//
// A header is a view: an array type of the header's size, laid over a buffer
// by XAt (BTHAt, RETHAt, ...) without a copy. XAt panics when the buffer is
// shorter than the header; whoever calls it has checked the length once,
// normally through OpInfo.HeaderLen. A view has a getter and a setter for each
// field, Fields to take all of them out and Encode to write the whole header,
// reserved bits as zero. All fields are big-endian on the wire and host
// numbers here; the one exception is the ICRC, whose least significant byte
// goes first.
//
// [Opcode.Info] says which headers follow a BTH and where they are:
//
//	info := bth.Opcode().Info()
//	if info != nil && len(b) >= info.HeaderLen && info.Headers&HasRETH != 0 {
//		va := RETHAt(b[info.RETH:]).VA()
//	}
//
// [Packet.Parse] takes a received Ethernet frame, whole or in pieces, checks
// everything that can be checked without knowing the queue pair, and refers
// to the frame's bytes. [Path] is the way back: the Ethernet, IP and UDP
// headers of one peer, ready to be copied in front of a BTH.
//
// [MAD] is a management datagram, the payload of a packet between two QP1, and
// REQ, REP, REJ and so on are views over its data: the messages of the
// connection manager. Their Fields refer to the private data in the view.
//
// Nothing here allocates, blocks, or keeps a reference to a buffer after it
// returns, but for what Packet's fields point to. The package reads no clock
// and does no I/O; all of it may be used from any number of goroutines, a
// single value from one at a time.
package wire
