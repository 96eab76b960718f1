package verbs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// remoteSentinels are what statuses are here. Those of connections mean nothing to
// this package.
var remoteSentinels = map[proto.Status]error{
	proto.StatusInvalid: ErrInvalid, proto.StatusState: ErrState, proto.StatusBusy: ErrBusy, proto.StatusClosed: ErrClosed,
	proto.StatusPermission: ErrPermission, proto.StatusOverflow: ErrOverflow, proto.StatusUnsupported: ErrUnsupported, proto.StatusLimit: ErrLimit,
	proto.StatusExist: fs.ErrExist, proto.StatusNotExist: fs.ErrNotExist, proto.StatusCancelled: context.Canceled,
	proto.StatusDeadline: context.DeadlineExceeded, proto.StatusNoMemory: syscall.ENOMEM,
	proto.StatusNoRoute: ErrNoRoute, proto.StatusNoNeighbour: ErrNoNeighbour, proto.StatusNoDevice: ErrNoDevice, proto.StatusNoSource: ErrNoSource,
	proto.StatusNoGID: ErrNoGID, proto.StatusMTU: ErrMTU, proto.StatusGroup: ErrGroup,
	proto.StatusTransition: ErrTransition, proto.StatusAttrMask: ErrAttrMask, proto.StatusAttrValue: ErrAttrValue, proto.StatusDraining: ErrDraining,
	proto.StatusVersion: ErrVersion,
}

// remoteError is an error of the daemon, which is one of this package too. Its text is
// the daemon's, which says both.
type remoteError struct {
	answer *session.Error
	is     error
}

func (e *remoteError) Error() string { return e.answer.Error() }

// Unwrap gives both to errors.Is and errors.As.
func (e *remoteError) Unwrap() []error { return []error{e.is, e.answer} }

// fromDaemon makes errors of this package of those of a session.
func fromDaemon(err error) error {
	var e *session.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, session.ErrPermission):
		return fmt.Errorf("%w: %w", ErrPermission, err)
	case errors.As(err, &e):
		if is := remoteSentinels[e.Status]; is != nil && !errors.Is(err, is) {
			return &remoteError{e, is}
		}
	case errors.Is(err, session.ErrClosed) && errors.Is(err, session.ErrProtocol): // which is why
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case errors.Is(err, session.ErrClosed), errors.Is(err, shm.ErrClosed):
		return errLost
	}
	return err
}
