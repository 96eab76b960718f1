// Package session is a program's end of the socket to the daemon: requests and their
// replies, the shared memory that replies name, doorbells, and the socket of
// asynchronous events. What the requests mean is the matter of package verbs, and of
// internal/cmengine for connections.
//
// A session ends when either side closes it, or when the daemon dies: then every
// call that waits returns at once, and every later one fails, with ErrClosed. Memory
// stays mapped as long as somebody has it, so that a program which polls a queue of
// a dead daemon finds nothing, and not a fault.
package session
