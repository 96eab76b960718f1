// Package simnet simulates a link between two ends, for tests of the protocol
// under conditions that a real network has now and then. Time is a parameter
// and all chance comes from a seed: the same calls give the same frames at the
// same times.
//
//	l := simnet.NewLink(seed, simnet.Conditions{Delay: 5 * time.Microsecond, Drop: 0.01}, simnet.Conditions{})
//	l.Send(now, simnet.A, frame)
//	now = l.Next()
//	to, frame, ok := l.Receive(now)
package simnet
