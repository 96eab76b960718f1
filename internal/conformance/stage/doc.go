// Package stage is the vocabulary of the tests of protocol rules: one live queue
// pair, a peer and a program that the test plays, and a clock that the test sets.
//
//	func TestReadRestart(t *testing.T) {
//		c := RC(t, "6.5-10")                             // a queue pair in RTS, and the rule
//		c.Post(Read(3 * MTU))                            // work requests get the ids 1, 2, 3...
//		c.Sends(ReadRequest(0).AckReq())                 // exactly that, now
//		c.Gets(RespFirst(0))                             // from the peer
//		c.At(Timeout).Quiet()                            // progress has started the timer again
//		c.At(Timeout + ...).Sends(ReadRequest(1).Range(MTU, 2*MTU).AckReq())
//		c.Gets(RespFirst(1), RespLast(2))
//		c.Completes(Done(1))
//	}
//
// Tests live in this directory, package stage_test with a dot import, one file
// for each section of docs/rules.md.
//
// # Exactly
//
// Sends polls the queue pair and wants exactly the packets named, with all their
// fields and payload, and no other. At moves the clock and polls on the way
// whenever a deadline passes; nothing may be sent there. When the test ends
// nothing may be left unsaid: packets, completions, events, drops. Gets hands
// packets over as one batch: the queue pair is polled by the next Sends or At.
//
// # Packets
//
// PSNs count from SQPSN for requests of the queue pair and their answers, from
// RQPSN for the peer's requests and their answers. Both wrap within the first
// packets of a test.
//
// What a packet does not say has its right value. Expected requests have headers
// and payload of the posted work request that their PSN belongs to; expected READ
// responses have the remote memory that the peer has asked for; expected answers
// have as MSN the number of messages that the peer has sent up to there. Packets
// of the peer carry PeerData, MTU bytes in FIRST and MIDDLE and Short bytes in
// LAST and ONLY, to the start of the remote memory. AckReq and SE are off unless
// they are said, in both directions. Methods set the rest: Len, Range, Key,
// Credits, MSN, ... Msg.From makes all packets of a message.
//
// The peer's packets are whole frames that go through wire.Packet.Parse; BTH and
// Frame change any bit of them, Drops says why one was refused.
//
// # Memory
//
// The program sends from, and READs into, local memory; the peer reaches remote
// memory; each receive, of the ids 101, 102..., has a buffer. LocalHas,
// RemoteHas, BufferHas and Untouched say what they hold.
package stage
