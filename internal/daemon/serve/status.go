package serve

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/memory"
	"github.com/roce-xdp/roce-xdp/internal/proto"
	"github.com/roce-xdp/roce-xdp/internal/queue"
	"github.com/roce-xdp/roce-xdp/internal/shm"
	"github.com/roce-xdp/roce-xdp/internal/transport"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// errProtocol: the request does not fit the conversation.
var errProtocol = errors.New("not a request that fits here")

// errVersion: the ends have no version in common.
var errVersion = errors.New("no version of the protocol that both ends speak")

// statuses are what errors are called on the wire; the first that fits counts, so
// that the more special come first.
var statuses = []struct {
	err    error
	status proto.Status
}{
	{errVersion, proto.StatusVersion},
	{errProtocol, proto.StatusProtocol},
	{proto.ErrMessage, proto.StatusProtocol},
	{context.Canceled, proto.StatusCancelled},
	{verbs.ErrNoNeighbour, proto.StatusNoNeighbour},
	{verbs.ErrNoRoute, proto.StatusNoRoute},
	{verbs.ErrNoSource, proto.StatusNoSource},
	{verbs.ErrNoDevice, proto.StatusNoDevice},
	{context.DeadlineExceeded, proto.StatusDeadline},
	{datapath.ErrNoGID, proto.StatusNoGID},
	{datapath.ErrMTU, proto.StatusMTU},
	{datapath.ErrGroup, proto.StatusGroup},
	{transport.ErrTransition, proto.StatusTransition},
	{transport.ErrAttrMask, proto.StatusAttrMask},
	{transport.ErrAttrValue, proto.StatusAttrValue},
	{transport.ErrDraining, proto.StatusDraining},
	{cmfsm.ErrUnknownID, proto.StatusCMUnknownID},
	{cmfsm.ErrState, proto.StatusCMState},
	{cmfsm.ErrInvalid, proto.StatusCMInvalid},
	{cmfsm.ErrPrivateData, proto.StatusCMPrivateData},
	{cmfsm.ErrAddrInUse, proto.StatusCMAddrInUse},
	{cmfsm.ErrNoPorts, proto.StatusCMNoPorts},
	{cmfsm.ErrTooManyIDs, proto.StatusCMTooManyIDs},
	{ErrLimit, proto.StatusLimit},
	{datapath.ErrLimit, proto.StatusLimit},
	{shm.ErrLimit, proto.StatusLimit},
	{memory.ErrFull, proto.StatusLimit},
	{datapath.ErrUnsupported, proto.StatusUnsupported},
	{verbs.ErrClosed, proto.StatusClosed},
	{shm.ErrClosed, proto.StatusClosed},
	{verbs.ErrBusy, proto.StatusBusy},
	{memory.ErrBound, proto.StatusBusy},
	{verbs.ErrOverflow, proto.StatusOverflow},
	{verbs.ErrState, proto.StatusState},
	{verbs.ErrPermission, proto.StatusPermission},
	{fs.ErrExist, proto.StatusExist},
	{fs.ErrNotExist, proto.StatusNotExist},
	{verbs.ErrInvalid, proto.StatusInvalid},
	{memory.ErrAccess, proto.StatusInvalid},
	{memory.ErrRange, proto.StatusInvalid},
	{memory.ErrNotRegistered, proto.StatusInvalid},
	{memory.ErrWindowType, proto.StatusInvalid},
	{queue.ErrLayout, proto.StatusInvalid},
	{shm.ErrInvalid, proto.StatusInvalid},
	{shm.ErrDescriptor, proto.StatusInvalid},
	{unix.ENOMEM, proto.StatusNoMemory},
}

// statusOf is what an error is on the wire.
func statusOf(err error) proto.Status {
	if err == nil {
		return proto.StatusOK
	}
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return s.status
		}
	}
	return proto.StatusOther
}
