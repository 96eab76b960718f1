package bpf

import (
	"errors"
	"os"
)

// Causes that errors of this package wrap; compare with errors.Is. The text of
// the wrapping error says what was found and what to do about it.
var (
	// ErrPrivilege: the process lacks a capability.
	ErrPrivilege = errors.New("XDP needs CAP_BPF and CAP_NET_ADMIN: run as root or see docs/privileges.md")
	// ErrNotSupported: the kernel is too old or built without a feature.
	ErrNotSupported = errors.New("not supported by this kernel")
	// ErrNoDevice: there is no such interface in the namespace of the caller.
	ErrNoDevice = errors.New("no such network interface")
	// ErrBusy: another XDP program, or another process of ours, holds the interface.
	ErrBusy = errors.New("the interface has another XDP program")
	// ErrRefused: the driver does not take the program; see also the two causes below.
	ErrRefused = errors.New("the driver refuses the XDP program")
	// ErrQueues: the device, or its veth peer, has too many or too few queues for XDP.
	ErrQueues = errors.New("the queues of the interface do not allow XDP")
	// ErrMTU: the MTU is too large for XDP in this driver.
	ErrMTU = errors.New("the MTU of the interface does not allow XDP")
	// ErrAttached: this Steer is attached already.
	ErrAttached = errors.New("already attached")
	// ErrPin: the pin directory cannot be used as it is.
	ErrPin = errors.New("unusable pin directory")
	// ErrRange: a queue, queue pair number or address outside of what the program can hold.
	ErrRange = errors.New("out of range")
	// ErrClosed: the Steer was closed.
	ErrClosed = os.ErrClosed
)

// OpError is the error of an operation on an object: a device, a pin, a map.
type OpError struct {
	Op  string // what was tried, for example "attach"
	Obj string // to what, for example "eth0 (native)"
	Err error
}

func (e *OpError) Error() string {
	if e.Obj == "" {
		return "bpf: " + e.Op + ": " + e.Err.Error()
	}
	return "bpf: " + e.Op + " " + e.Obj + ": " + e.Err.Error()
}

func (e *OpError) Unwrap() error { return e.Err }

// opError is nil for a nil err.
func opError(op, obj string, err error) error {
	if err == nil {
		return nil
	}
	return &OpError{Op: op, Obj: obj, Err: err}
}
