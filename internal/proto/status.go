package proto

import "strconv"

// Status is how a request ended. What the ends make of it are errors of their own
// packages.
type Status uint32

// Statuses. Numbers are never used again.
const (
	StatusOK          Status = 0
	StatusInvalid     Status = 1  // an argument is out of range or does not fit
	StatusState       Status = 2  // the object's state does not allow it
	StatusBusy        Status = 3  // the object is in use by others
	StatusClosed      Status = 4  // the object or device is gone
	StatusPermission  Status = 5  // the client may not
	StatusOverflow    Status = 6  // the completion queue has overflowed
	StatusUnsupported Status = 7  // the device cannot do it
	StatusLimit       Status = 8  // too many objects, of the device or of this client
	StatusExist       Status = 9  // there is one of that name
	StatusNotExist    Status = 10 // there is none of that name
	StatusCancelled   Status = 11 // OpCancel, or the end of the client
	StatusDeadline    Status = 12 // it took longer than the request allows
	StatusNoMemory    Status = 13

	StatusNoRoute     Status = 20
	StatusNoNeighbour Status = 21
	StatusNoDevice    Status = 22
	StatusNoSource    Status = 23
	StatusNoGID       Status = 24
	StatusMTU         Status = 25
	StatusGroup       Status = 26 // a multicast group could not be joined

	StatusTransition Status = 30 // no such transition of a queue pair
	StatusAttrMask   Status = 31 // the wrong set of attributes
	StatusAttrValue  Status = 32 // an attribute out of range
	StatusDraining   Status = 33 // the send queue is draining

	StatusCMUnknownID   Status = 40
	StatusCMState       Status = 41
	StatusCMInvalid     Status = 42
	StatusCMPrivateData Status = 43
	StatusCMAddrInUse   Status = 44
	StatusCMNoPorts     Status = 45
	StatusCMTooManyIDs  Status = 46

	StatusVersion  Status = 60 // no version that both ends speak
	StatusProtocol Status = 61 // not a message, or not in this place
	StatusOther    Status = 62 // see the text
)

var statusNames = map[Status]string{
	StatusOK: "OK", StatusInvalid: "INVALID", StatusState: "STATE", StatusBusy: "BUSY", StatusClosed: "CLOSED", StatusPermission: "PERMISSION",
	StatusOverflow: "OVERFLOW", StatusUnsupported: "UNSUPPORTED", StatusLimit: "LIMIT", StatusExist: "EXIST", StatusNotExist: "NOT_EXIST",
	StatusCancelled: "CANCELLED", StatusDeadline: "DEADLINE", StatusNoMemory: "NO_MEMORY", StatusNoRoute: "NO_ROUTE", StatusNoNeighbour: "NO_NEIGHBOUR",
	StatusNoDevice: "NO_DEVICE", StatusNoSource: "NO_SOURCE", StatusNoGID: "NO_GID", StatusMTU: "MTU", StatusGroup: "GROUP",
	StatusTransition: "TRANSITION", StatusAttrMask: "ATTR_MASK", StatusAttrValue: "ATTR_VALUE", StatusDraining: "DRAINING",
	StatusCMUnknownID: "CM_UNKNOWN_ID", StatusCMState: "CM_STATE", StatusCMInvalid: "CM_INVALID", StatusCMPrivateData: "CM_PRIVATE_DATA",
	StatusCMAddrInUse: "CM_ADDR_IN_USE", StatusCMNoPorts: "CM_NO_PORTS", StatusCMTooManyIDs: "CM_TOO_MANY_IDS",
	StatusVersion: "VERSION", StatusProtocol: "PROTOCOL", StatusOther: "OTHER",
}

// String is the name of the status, "NO_ROUTE".
func (s Status) String() string {
	if n, ok := statusNames[s]; ok {
		return n
	}
	return "STATUS_" + strconv.FormatUint(uint64(s), 10)
}
