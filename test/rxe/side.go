package main

import (
	"crypto/sha256"
	"crypto/sha3"
	"encoding/hex"
	"fmt"
	"net/netip"
	"time"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// Each side has one region: a source area, and a target area behind it. Both
// begin at addresses that are no multiple of anything; a word lies between.
const (
	maxSize   = 1 << 20
	areaLen   = maxSize + 8192
	source    = 67
	word      = areaLen - 4096 // 8 bytes, aligned
	target    = areaLen + 1029
	regionLen = 2 * areaLen
)

// A connection for large messages has a region with room for one more area, of
// either kind.
const (
	largeSize   = 16 << 20
	largeArea   = regionLen + 67
	largeRegion = largeArea + largeSize + 4096
)

// First PSNs: the requester's wraps within every row that sends more than 6
// packets.
const (
	requesterPSN = 0xfffffa
	responderPSN = 0x002000
)

// rdAtomic is how many READs and atomics are outstanding, each way.
const rdAtomic = 4

// endpoint is what one side tells the other.
type endpoint struct {
	QPN  uint32     `json:"qpn"`
	PSN  uint32     `json:"psn"`
	GID  netip.Addr `json:"gid"`
	RKey uint32     `json:"rkey"`
	Addr uint64     `json:"addr"`
}

// request is a send work request. Off and N are the local memory; Addr and RKey
// the remote one.
type request struct {
	Op    verbs.Opcode
	ID    uint64
	Off   int
	N     int
	Addr  uint64
	RKey  uint32 // of a SEND with invalidate: the key to invalidate
	Imm   uint32
	Cmp   uint64 // value to compare, or to add
	Swap  uint64
	Level int // of a FLUSH: 0 the range, 1 the region
}

// completion is a work completion.
type completion struct {
	ID     uint64         `json:"wr_id"`
	Status verbs.WCStatus `json:"status"`
	Opcode verbs.WCOpcode `json:"opcode"`
	Len    uint32         `json:"byte_len"`
	Flags  verbs.WCFlags  `json:"wc_flags"`
	Imm    uint32         `json:"imm"`
}

// params are the attributes of a queue pair that rows choose.
type params struct {
	family  family
	mtu     int // bytes
	psn     uint32
	timeout int // exponent of 4.096 us
	retry   int
	rnr     int
	minRNR  int           // code of IBTA vol. 1, table 45
	size    int           // bytes of the region
	wait    time.Duration // for a completion
}

// side is one end of a connection: ours or the guest's.
type side interface {
	name() string
	open(p params) (endpoint, error)
	connect(peer endpoint) error
	fill(off, n int, seed string) error        // write data(seed, n)
	set(off int, b []byte) error               // write b
	sum(off, n int) (string, error)            // digest of that memory
	recv(id uint64, off, n int) error          // post a receive
	post(r request) error                      // post a send
	window(off, n int) (key uint32, err error) // bind a memory window
	state() (verbs.QPState, error)
	// wait returns the next n completions, fewer when the time is over.
	wait(n int, limit time.Duration) ([]completion, error)
	close() error
}

// data are n bytes that are the same wherever they are made, and different at
// every offset.
func data(seed string, n int) []byte { return sha3.SumSHAKE128([]byte(seed), n) }

// digest is what sum returns for b.
func digest(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// join opens both sides and connects them.
func join(requester, responder side, p params) (q, s endpoint, err error) {
	p.psn = requesterPSN
	if q, err = requester.open(p); err != nil {
		return q, s, fmt.Errorf("%s: open: %w", requester.name(), err)
	}
	p.psn = responderPSN
	if s, err = responder.open(p); err != nil {
		return q, s, fmt.Errorf("%s: open: %w", responder.name(), err)
	}
	if err = responder.connect(q); err != nil {
		return q, s, fmt.Errorf("%s: connect: %w", responder.name(), err)
	}
	if err = requester.connect(s); err != nil {
		return q, s, fmt.Errorf("%s: connect: %w", requester.name(), err)
	}
	return q, s, nil
}
