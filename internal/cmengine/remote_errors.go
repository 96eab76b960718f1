package cmengine

import (
	"context"
	"errors"
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// sentinels are the errors that statuses of the daemon stand for.
var sentinels = map[proto.Status]error{
	proto.StatusCMUnknownID:   cmfsm.ErrUnknownID,
	proto.StatusCMState:       cmfsm.ErrState,
	proto.StatusCMInvalid:     cmfsm.ErrInvalid,
	proto.StatusCMPrivateData: cmfsm.ErrPrivateData,
	proto.StatusCMAddrInUse:   cmfsm.ErrAddrInUse,
	proto.StatusCMNoPorts:     cmfsm.ErrNoPorts,
	proto.StatusCMTooManyIDs:  cmfsm.ErrTooManyIDs,
	proto.StatusNoRoute:       verbs.ErrNoRoute,
	proto.StatusNoNeighbour:   verbs.ErrNoNeighbour,
	proto.StatusNoDevice:      verbs.ErrNoDevice,
	proto.StatusNoSource:      verbs.ErrNoSource,
	proto.StatusInvalid:       verbs.ErrInvalid,
	proto.StatusBusy:          verbs.ErrBusy,
	proto.StatusPermission:    verbs.ErrPermission,
	proto.StatusClosed:        verbs.ErrClosed,
	proto.StatusCancelled:     context.Canceled,
	proto.StatusDeadline:      context.DeadlineExceeded,
}

// remoteError is an error of the daemon that is also one of this process.
type remoteError struct {
	err *session.Error
	is  error
}

// Error is the daemon's text, which has that of the sentinel in it.
func (e *remoteError) Error() string { return e.err.Error() }

func (e *remoteError) Unwrap() []error { return []error{e.err, e.is} }

// sentinel makes an error of the daemon one that errors.Is knows.
func sentinel(err error) error {
	var e *session.Error
	if errors.As(err, &e) {
		if is := sentinels[e.Status]; is != nil {
			return &remoteError{e, is}
		}
		return err
	}
	if errors.Is(err, session.ErrClosed) {
		return fmt.Errorf("%w: %w", verbs.ErrClosed, err)
	}
	return err
}
