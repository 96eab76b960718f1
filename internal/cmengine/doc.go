// Package cmengine runs the connection manager of a device: it owns queue pair 1,
// feeds what comes there to a [cmfsm.Machine], sends what that has to say, and
// calls it when its timers are due. One goroutine for each device waits for
// completions and timers; calls run in the caller's goroutine, under a lock that
// is held for microseconds.
//
// # Who uses it
//
// Package cm, through [Service] and [Client]: a client has ids, makes calls by
// them and is told of their events. Several clients share a device's engine, each is
// an owner in the machine and ends with all that it has. The engine runs while it
// has clients, an [Attendance], or connections whose end is still on its way.
//
// The interface is drawn so that its two sides may be in different processes: all that
// goes through it are values. A daemon that owns a device opens a client of the
// engine for each of its own clients, and passes their calls and events on; a
// provider that is the other end of that implements [Provider], and [Of] prefers
// it to an engine of its own. Nothing in package cm differs then.
//
// # Paths
//
// The machine names the way of a datagram by its addresses; the engine keeps the
// address handles. A handle may take seconds to make, as long as the next hop needs
// to answer for its link-layer address: that is done in a goroutine of its own,
// of which there is a bounded number, and the datagram waits. So an address that
// does not answer holds up nothing but itself.
package cmengine
