package verbs

import (
	"errors"
	"fmt"
)

// Errors of this package; test with errors.Is.
var (
	// ErrInvalid: an argument is out of range or does not fit the others.
	ErrInvalid = errors.New("invalid argument")
	// ErrState: the queue pair's state does not allow the call.
	ErrState = errors.New("wrong queue pair state")
	// ErrQueueFull: the queue has no room for the work request.
	ErrQueueFull = errors.New("queue full")
	// ErrBusy: the object is in use by others.
	ErrBusy = errors.New("object in use")
	// ErrClosed: the object or its device has been closed.
	ErrClosed = errors.New("closed")
	// ErrCorrupted: the other side of a shared queue wrote an impossible index.
	ErrCorrupted = errors.New("queue corrupted by its other side")
	// ErrPermission: the caller lacks the privilege for it.
	ErrPermission = errors.New("not permitted")
	// ErrOverflow: the completion queue was too small and completions were lost.
	ErrOverflow = errors.New("completion queue overflowed")
)

// OpError says which call on which object failed.
type OpError struct {
	Op  string // "modify", "post send"
	Obj string // "qp 0x11"
	Err error
}

// Error is "post send on qp 0x11: queue full: ...".
func (e *OpError) Error() string { return e.Op + " on " + e.Obj + ": " + e.Err.Error() }

// Unwrap gives the cause to errors.Is and errors.As.
func (e *OpError) Unwrap() error { return e.Err }

func opErr(op, obj string, err error) error {
	if err == nil {
		return nil
	}
	return &OpError{Op: op, Obj: obj, Err: err}
}

// invalid makes an ErrInvalid with a reason.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
