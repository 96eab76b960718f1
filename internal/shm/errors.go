package shm

import "errors"

// Errors of this package; test with errors.Is.
var (
	// ErrLimit: there would be more memory, or more segments, than are allowed.
	ErrLimit = errors.New("shared memory limit reached")
	// ErrInvalid: a size, an offset or a piece is none that is there.
	ErrInvalid = errors.New("no such shared memory")
	// ErrDescriptor: a descriptor is not of the kind that it has to be.
	ErrDescriptor = errors.New("descriptor of the wrong kind")
	// ErrPacket: a packet is too long, empty, or has too many descriptors.
	ErrPacket = errors.New("bad packet")
	// ErrMissing: descriptors of a packet were lost on the way, for want of room.
	ErrMissing = errors.New("descriptors are missing: the limit of open files is reached (raise RLIMIT_NOFILE)")
	// ErrFull: the receiver does not keep up, and sending would have to wait.
	ErrFull = errors.New("the receiver's queue is full")
	// ErrClosed: this end was closed, or the other end is gone.
	ErrClosed = errors.New("connection closed")
)
