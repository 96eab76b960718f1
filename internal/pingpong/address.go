package pingpong

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/roce-xdp/roce-xdp/internal/connect"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// ErrProtocol reports a peer that does not speak the protocol.
var ErrProtocol = errors.New("the other end is not a pingpong program")

// addressLen is the length of an address message: LID, QPN, PSN and GID in
// hexadecimal with colons between, and a NUL.
const addressLen = 4 + 1 + 6 + 1 + 6 + 1 + 32 + 1

// address is what one end tells the other.
type address struct {
	LID uint16 // 0 on Ethernet
	QPN uint32 // 24 bits
	PSN uint32 // first PSN that it sends, 24 bits
	GID verbs.GID
}

// message is the address as it goes over TCP.
func (a address) message() []byte {
	s := fmt.Sprintf("%04x:%06x:%06x:%x\x00", a.LID, a.QPN, a.PSN, a.GID[:])
	return []byte(s)
}

// addressOf is what the other end is told of e.
func addressOf(e connect.Endpoint) address {
	return address{QPN: e.QPN, PSN: e.PSN, GID: verbs.GID(e.GID.As16())}
}

// endpointOf is the endpoint at the address of the other end.
func endpointOf(a address) (connect.Endpoint, error) {
	e := connect.Endpoint{QPN: a.QPN, PSN: a.PSN, GID: netip.AddrFrom16(a.GID).Unmap()}
	if err := e.Check(); err != nil {
		return e, fmt.Errorf("%w: start it with the index of a RoCE v2 GID (-g)", err)
	}
	return e, nil
}

// parseAddress reads a message. Both cases of hexadecimal digits are taken, as
// the C programs do.
func parseAddress(msg []byte) (address, error) {
	bad := func(what string) (address, error) {
		return address{}, fmt.Errorf("%w: %s in %q", ErrProtocol, what, msg)
	}
	if len(msg) != addressLen || msg[4] != ':' || msg[11] != ':' || msg[18] != ':' {
		return bad("no address message")
	}
	var a address
	for _, f := range []struct {
		name     string
		from, to int
		set      func(uint64)
	}{
		{"LID", 0, 4, func(v uint64) { a.LID = uint16(v) }},
		{"QPN", 5, 11, func(v uint64) { a.QPN = uint32(v) }},
		{"PSN", 12, 18, func(v uint64) { a.PSN = uint32(v) }},
	} {
		v, err := strconv.ParseUint(string(msg[f.from:f.to]), 16, 32)
		if err != nil {
			return bad("no " + f.name)
		}
		f.set(v)
	}
	if n, err := hex.Decode(a.GID[:], msg[19:51]); err != nil || n != len(a.GID) {
		return bad("no GID")
	}
	return a, nil
}
