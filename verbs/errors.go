package verbs

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/session"
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
	// ErrUnsupported: the device cannot do what was asked for.
	ErrUnsupported = errors.New("not supported by this device")
	// ErrLimit: as many objects, or bytes, exist as the device or the user can have.
	ErrLimit = errors.New("too many objects")
	// ErrNoGID: the GID index names no address.
	ErrNoGID = errors.New("no such GID")
	// ErrMTU: the path MTU does not fit the link.
	ErrMTU = errors.New("path MTU too large")
	// ErrGroup: the host could not join a multicast group.
	ErrGroup = errors.New("cannot join the multicast group")
)

// Errors of QP.Modify (IBTA vol. 1, 11.2.4.2), which name the attribute.
var (
	// ErrTransition: a queue pair cannot go from one state to the other.
	ErrTransition = ibv.ErrTransition
	// ErrAttrMask: the transition lacks an attribute, or takes none such.
	ErrAttrMask = ibv.ErrAttrMask
	// ErrAttrValue: an attribute has a value outside its range.
	ErrAttrValue = ibv.ErrAttrValue
	// ErrDraining: the send queue has not drained yet.
	ErrDraining = ibv.ErrDraining
)

// Errors of Open and Devices, besides those above.
var (
	// ErrNoDaemon: no daemon has its socket in the runtime directory.
	ErrNoDaemon = session.ErrNoDaemon
	// ErrVersion: program and daemon have no version of their protocol in common.
	ErrVersion = session.ErrVersion
)

// errLost is what all calls return when the device's daemon has ended.
var errLost = fmt.Errorf("%w: the device was closed, or its daemon has ended or has thrown this program out (its log says why), and it has to be opened anew", ErrClosed)

// usable is why an object of c that is gone when gone says so cannot be used, if it cannot.
func (c *Context) usable(gone *atomic.Bool) error {
	switch {
	case gone.Load():
		return ErrClosed
	case c.lost.Load():
		return errLost
	}
	return nil
}

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
