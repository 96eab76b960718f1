package ibv

import "errors"

// Errors of changing a queue pair; test with errors.Is.
var (
	// ErrTransition says that a queue pair cannot go from one state to the other.
	ErrTransition = errors.New("invalid state transition")
	// ErrAttrMask says that a transition lacks an attribute or takes none such.
	ErrAttrMask = errors.New("wrong set of attributes")
	// ErrAttrValue says that an attribute has a value outside its range.
	ErrAttrValue = errors.New("invalid attribute")
	// ErrDraining says that the send queue has not drained yet.
	ErrDraining = errors.New("send queue is draining")
)
