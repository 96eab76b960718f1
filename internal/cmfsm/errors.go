package cmfsm

import "errors"

// Errors of calls. What the peer or the network does is an event instead.
var (
	// ErrUnknownID says that there is no such id, or no longer.
	ErrUnknownID = errors.New("cmfsm: no such id: it was never created, or is destroyed")
	// ErrState says that the call does not fit the id's state.
	ErrState = errors.New("cmfsm: the id is in the wrong state for this call")
	// ErrInvalid says that an argument is out of its range.
	ErrInvalid = errors.New("cmfsm: invalid argument")
	// ErrPrivateData says that there is more private data than the message has room for.
	ErrPrivateData = errors.New("cmfsm: too much private data")
	// ErrAddrInUse says that another id has the address and port.
	ErrAddrInUse = errors.New("cmfsm: address and port are in use: choose another port, or set ReuseAddr on both ids before binding")
	// ErrNoPorts says that all ephemeral ports are taken by listeners or explicit binds.
	ErrNoPorts = errors.New("cmfsm: no ephemeral port is free: destroy ids, or widen the range of ports")
	// ErrTooManyIDs says that the machine is full, or that the owner has its share.
	ErrTooManyIDs = errors.New("cmfsm: too many ids: destroy some, or raise the limit")
)
