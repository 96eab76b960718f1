package datapath

import (
	"errors"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// Errors of this package; test with errors.Is. Errors of packages bpf and xsk
// come through with their own sentinels.
var (
	// ErrNoInterface: the namespace has no interface of that name.
	ErrNoInterface = errors.New("no such network interface")
	// ErrInterface: the interface cannot carry RoCE.
	ErrInterface = errors.New("the interface cannot carry RoCE")
	// ErrConfig: an option is out of its range.
	ErrConfig = errors.New("bad option")
	// ErrUnsupported: the device cannot do what was asked for.
	ErrUnsupported = verbs.ErrUnsupported
	// ErrLimit: as many objects exist as the device can have.
	ErrLimit = verbs.ErrLimit
	// ErrNoGID: the GID index names no address.
	ErrNoGID = verbs.ErrNoGID
	// ErrMTU: the path MTU does not fit the link.
	ErrMTU = verbs.ErrMTU
	// ErrNoRoute: the host has no route to the peer through the interface.
	ErrNoRoute = verbs.ErrNoRoute
	// ErrNoNeighbour: nobody answered for the peer's or gateway's address.
	ErrNoNeighbour = verbs.ErrNoNeighbour
	// ErrNoDevice: the interface is none of the device's.
	ErrNoDevice = verbs.ErrNoDevice
	// ErrNoSource: the device has no such address.
	ErrNoSource = verbs.ErrNoSource
	// ErrGroup: the host could not join a multicast group.
	ErrGroup = verbs.ErrGroup
	// ErrInvalid: an argument is not an object of this device.
	ErrInvalid = verbs.ErrInvalid
	// ErrBusy: the object is in use by others.
	ErrBusy = verbs.ErrBusy
	// ErrPermission: the process lacks the capability for it.
	ErrPermission = verbs.ErrPermission
	// ErrClosed: the device was closed.
	ErrClosed = verbs.ErrClosed
)
