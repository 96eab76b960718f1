// Package simnet simulates networks of Ethernet frames, for tests of the protocol
// under conditions that a real one has now and then: a link between two ends, and a
// star of hosts around a switch. A way may have a delay, a rate and a queue that
// overflows or marks frames, and may lose, repeat, delay or corrupt them. Time is a
// parameter and all chance comes from a seed: the same calls give the same frames
// at the same times.
//
//	l := simnet.NewLink(seed, simnet.Conditions{Delay: 5 * time.Microsecond, Drop: 0.01}, simnet.Conditions{})
//	l.Send(now, simnet.A, frame)
//	now = l.Next()
//	to, frame, ok := l.Receive(now)
package simnet
