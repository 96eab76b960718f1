package session

import (
	"errors"
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/proto"
)

// Errors of this package; test with errors.Is.
var (
	// ErrNoDaemon: nobody listens in the runtime directory.
	ErrNoDaemon = errors.New("no daemon")
	// ErrPermission: the user may not connect.
	ErrPermission = errors.New("not permitted")
	// ErrVersion: program and daemon have no version of the protocol in common.
	ErrVersion = errors.New("program and daemon do not speak the same version")
	// ErrClosed: the session was closed, or the daemon has ended.
	ErrClosed = errors.New("session with the daemon closed")
	// ErrProtocol: the daemon has answered with something that is no answer.
	ErrProtocol = errors.New("unexpected answer from the daemon")
)

// Error is the daemon's answer to a request that failed.
type Error struct {
	Op     proto.Op
	Status proto.Status // not StatusOK
	Text   string       // what is wrong and what to do
}

// Error is the daemon's text, or the status when there is none.
func (e *Error) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("the daemon answers %v to %v", e.Status, e.Op)
	}
	return e.Text
}
