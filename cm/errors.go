package cm

import (
	"errors"
	"fmt"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Errors of this package; test with errors.Is. Those of verbs come through.
var (
	// ErrRejected: the peer said no; see RejectedError.
	ErrRejected = errors.New("rejected by the peer")
	// ErrNoListener: nobody listens at the peer's address and port.
	ErrNoListener = errors.New("nobody listens there")
	// ErrNoAnswer: the peer's connection manager did not answer.
	ErrNoAnswer = errors.New("no answer")
	// ErrDisconnected: the peer has ended the connection, or the own daemon has, which tells
	// the peer before it ends itself.
	ErrDisconnected = errors.New("the peer has disconnected")
	// ErrRemoved: the device is gone.
	ErrRemoved = errors.New("the device is gone: it was closed or removed, or its daemon has ended")
	// ErrListenerClosed: the listener was closed.
	ErrListenerClosed = errors.New("the listener is closed")
	// ErrNoSource: the device does not have the local address, or none from which the
	// destination can be reached.
	ErrNoSource = verbs.ErrNoSource
	// ErrAddrInUse: another id has the address and port.
	ErrAddrInUse = cmfsm.ErrAddrInUse
	// ErrPrivateData: there is more private data than the message has room for.
	ErrPrivateData = cmfsm.ErrPrivateData
	// ErrState: the call does not fit what has happened before.
	ErrState = cmfsm.ErrState
)

// RejectReason says why a peer refuses (IBTA vol. 1, chapter 12).
type RejectReason = wire.RejReason

// Reasons that are met with most.
const (
	RejectNoResources   = wire.RejNoResources      // 3: too many connections or requests
	RejectTimeout       = wire.RejTimeout          // 4: the peer gave up
	RejectNoListener    = wire.RejInvalidServiceID // 8
	RejectWrongType     = wire.RejInvalidTransportType
	RejectStale         = wire.RejStaleConn // 10
	RejectInvalidMTU    = wire.RejInvalidMTU
	RejectByApplication = wire.RejConsumer // 28
)

// RejectedError is a refusal of the peer. It is ErrRejected, and ErrNoListener
// when that is why.
type RejectedError struct {
	Reason RejectReason
	// PrivateData has MaxRejectPrivate bytes: what the peer's application said,
	// followed by zeros, as the length is not transmitted.
	PrivateData []byte
}

// Error is the reason and what it usually means.
func (e *RejectedError) Error() string {
	s := fmt.Sprintf("%v: %v (%d)", ErrRejected, e.Reason, uint16(e.Reason))
	if h := hints[e.Reason]; h != "" {
		s += ": " + h
	}
	return s
}

// Is says whether the refusal is of a kind.
func (e *RejectedError) Is(target error) bool {
	return target == ErrRejected || target == ErrNoListener && e.Reason == RejectNoListener
}

var hints = map[RejectReason]string{
	RejectNoResources:              "its listener has too many requests waiting, or it has too many connections: try again later",
	RejectTimeout:                  "it gave up waiting: accept sooner",
	RejectNoListener:               "no program listens on that port in this port space: is the server running, and is the port right?",
	RejectWrongType:                "its listener wants queue pairs of another type, RC or UC",
	RejectStale:                    "it believes that this queue pair still has another connection: try again",
	wire.RejInvalidGID:             "it has no way to the source address: check its routes, and that RoCEv2 is the default for its rdma_cm",
	RejectInvalidMTU:               "its link carries less: lower the path MTU, with Config.MaxMTU, or raise the MTU of its interface",
	RejectByApplication:            "its program refused; the private data may say why",
	wire.RejDuplicateLocalCommID:   "an earlier request with the same id is still there: try again",
	wire.RejInsufficientResources:  "it serves fewer READs and atomics at a time: lower InitiatorDepth",
	wire.RejInvalidRNRRetry:        "it does not take the RNR retry count",
	wire.RejNoQP:                   "it has no queue pair left",
	wire.RejVendorOption:           "it wants vendor options that are not supported here",
	wire.RejPortCMRedirect:         "it redirects to another port, which is not supported",
	wire.RejInvalidCommInstance:    "it does not know the connection any more",
	wire.RejInvalidClassVersion:    "it speaks another version of the protocol",
	wire.RejUnsupported:            "it does not support what was asked for",
	wire.RejInvalidTrafficClass:    "it does not take the traffic class: see Config.TOS",
	wire.RejInvalidCommID:          "it does not know the connection",
	wire.RejPortRedirect:           "it redirects to another port, which is not supported",
	wire.RejInvalidSL:              "it does not take the service level",
	wire.RejInvalidHopLimit:        "it does not take the hop limit",
	wire.RejInvalidFlowLabel:       "it does not take the flow label",
	wire.RejInvalidPacketRate:      "it does not take the packet rate",
	wire.RejRDCNotExist:            "it was asked for a reliable datagram channel",
	wire.RejInvalidLID:             "it wants another LID, which RoCE does not have",
	wire.RejInvalidAltGID:          "it does not take alternate paths",
	wire.RejInvalidAltPacketRate:   "it does not take alternate paths",
	wire.RejInvalidAltTrafficClass: "it does not take alternate paths",
}

// tries is how often a message is sent in all.
const tries = cmfsm.DefaultMaxRetries + 1

func noAnswer(what string) error {
	return fmt.Errorf("%w to %d %s: the peer is down, does not speak RoCEv2, or a firewall drops UDP port 4791", ErrNoAnswer, tries, what)
}

// OpError says which call failed.
type OpError struct {
	Op   string // "dial", "accept"
	Addr string // the peer's, or that of a listener
	Err  error
}

// Error is "dial 10.0.0.2:7471: ...".
func (e *OpError) Error() string { return "cm: " + e.Op + " " + e.Addr + ": " + e.Err.Error() }

// Unwrap gives the cause to errors.Is and errors.As.
func (e *OpError) Unwrap() error { return e.Err }

func opErr(op, addr string, err error) error {
	if err == nil {
		return nil
	}
	return &OpError{Op: op, Addr: addr, Err: err}
}

func stateErr(why string) error { return fmt.Errorf("%w: %s", ErrState, why) }
