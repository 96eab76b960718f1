// Package resolve finds out how a peer is reached: by which interface, source
// address, route and next hop, with which link-layer address and path MTU. It asks
// the kernel through netlink, which needs no privileges, and has it ask the next
// hop where that is not known. Watch tells when the answer changes.
//
// A program with a device calls verbs.Context.Resolve, which answers for that
// device, where it is. This package is for those that have none yet.
package resolve

import "github.com/roce-xdp/roce-xdp/verbs"

// Errors of this package are those of verbs; test with errors.Is.
var (
	ErrNoRoute     = verbs.ErrNoRoute
	ErrNoNeighbour = verbs.ErrNoNeighbour
	ErrNoDevice    = verbs.ErrNoDevice
	ErrNoSource    = verbs.ErrNoSource
	ErrInvalid     = verbs.ErrInvalid
	ErrClosed      = verbs.ErrClosed
)
