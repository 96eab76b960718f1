// Package xsktest implements xsk.Port and xsk.Waiter in memory, without a
// kernel, privileges or time: two ports are joined like the ends of a cable,
// and what one transmits in Kick is in the receive ring of the other when Kick
// returns.
//
//	a, b := xsktest.Pair(xsktest.Config{})
//	defer a.Close()
//	defer b.Close()
//
// A port does what an AF_XDP socket in copy mode does, with the same ring code:
// it uses frames of the receiver's fill ring, drops and counts what finds none,
// splits long frames over several buffers, and completes what was sent.
package xsktest
