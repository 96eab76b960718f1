// Package transport is the protocol engine: the requester and responder of RC,
// UC, UD and XRC queue pairs as pure state machines. It reads no clock, owns no
// goroutine, takes no lock around a queue pair, does no I/O and allocates nothing
// per packet. Who drives it passes in the time, verified packets and a batch to
// fill, and asks for the next deadline:
//
//	HandlePacket(now, pkt)   one verified packet: Release the frame, or Keep it
//	Poll(now, tx)            append packets to send, within the batch's budget
//	NextDeadline()           when Poll must be called at the latest
//
// The rules are those of the InfiniBand Architecture Specification vol. 1,
// chapter 9, as RoCEv2 (annex A17) uses them. Outcomes carry the names of
// ibv_wc_status and of the AETH syndromes; they are not Go errors.
package transport
