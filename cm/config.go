package cm

import (
	"fmt"
	"net/netip"

	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// Room for an application's private data, in bytes.
const (
	MaxDialPrivate   = cmfsm.MaxREQPrivate     // 56
	MaxAcceptPrivate = cmfsm.MaxREPPrivate     // 196
	MaxRejectPrivate = cmfsm.MaxREJPrivate     // 148
	MaxUDPrivate     = cmfsm.MaxSIDRREQPrivate // 180, Connect of a UD id
	MaxUDAnswer      = cmfsm.MaxSIDRREPPrivate // 136, Accept and Reject of it
)

// Config says how connections are made. The zero value, or nil, is a good one: it
// makes what a connection needs.
type Config struct {
	// PD, SendCQ, RecvCQ and SRQ are what the queue pair is made with. What is nil is
	// made for the connection and ends with its Close, but for an SRQ; RecvCQ is
	// SendCQ then.
	PD             *verbs.PD
	SendCQ, RecvCQ *verbs.CQ
	SRQ            *verbs.SRQ
	Cap            verbs.QPCap // capacities; those that are 0 get the defaults of verbs.QPInitAttr
	SigAll         bool        // every send work request generates a completion
	Context        uint64      // QPInitAttr.Context: WC.QPContext of its completions

	// Prepare is called with the queue pair in INIT, before the peer can send: to
	// post receives. An error of it ends the attempt.
	Prepare func(*verbs.QP) error

	// PrivateData goes to the peer with the request, at most MaxDialPrivate bytes, or, of
	// a Listener, with the acceptance, at most MaxAcceptPrivate.
	PrivateData []byte

	// ResponderResources is how many READs and atomics of the peer the queue pair
	// serves at a time, InitiatorDepth how many it has outstanding itself. 0: as many
	// as both ends can; negative: none.
	ResponderResources, InitiatorDepth int
	// RetryCount is how often a packet is sent again that nobody acknowledges, for
	// both ends, RNRRetryCount how often the peer sends again to an end without a receive.
	// 1 to 7, which is for ever for the latter; 0: 7; negative: never.
	RetryCount, RNRRetryCount int
	MinRNRTimer               uint8        // how long the peer waits before, a code of 0 to 31 (IBTA vol. 1, table 45)
	Access                    verbs.Access // rights of the peer, besides writing, and reading and atomics with ResponderResources
	TOS                       uint8        // TOS or traffic class byte of all packets (RDMA_OPTION_ID_TOS)
	AckTimeout                uint8        // time to wait for an acknowledgement, 4.096 us * 2^n, 1 to 31; 0: computed (RDMA_OPTION_ID_ACK_TIMEOUT)
	MaxMTU                    verbs.MTU    // largest path MTU; 0: the port's. The end that dials decides.

	// LocalAddr is where Dial comes from: an own address, or the unspecified one for any;
	// port 0 for any.
	LocalAddr netip.AddrPort
	Backlog   int  // requests of a Listener that wait for Accept, others are refused; 0: 1024, the most
	ReuseAddr bool // share an address and port with others that say so, as long as nobody listens
	AFOnly    bool // a Listener on [::] takes no IPv4
}

// maxRetries is the largest retry count; of RNR it means for ever.
const maxRetries = 7

// check refuses what is out of range.
func (c *Config) check() error {
	switch {
	case c.ResponderResources > verbs.MaxRDAtomic || c.InitiatorDepth > verbs.MaxRDAtomic:
		return invalid("ResponderResources %d and InitiatorDepth %d: at most %d", c.ResponderResources, c.InitiatorDepth, verbs.MaxRDAtomic)
	case c.RetryCount > maxRetries || c.RNRRetryCount > maxRetries:
		return invalid("RetryCount %d and RNRRetryCount %d: at most %d", c.RetryCount, c.RNRRetryCount, maxRetries)
	case c.MinRNRTimer > 31 || c.AckTimeout > 31:
		return invalid("MinRNRTimer %d and AckTimeout %d: at most 31", c.MinRNRTimer, c.AckTimeout)
	case c.MaxMTU != 0 && !c.MaxMTU.Valid():
		return invalid("MaxMTU %d: one of verbs.MTU256 to MTU4096", c.MaxMTU)
	case c.PD == nil && c.SRQ != nil:
		return invalid("an SRQ without the PD")
	case c.SendCQ == nil && c.RecvCQ != nil:
		return invalid("RecvCQ without SendCQ: name the one queue as both")
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", verbs.ErrInvalid, fmt.Sprintf(format, args...))
}

// param is the configuration as the peer is told it.
func (c *Config) param(private []byte) cmfsm.ConnParam {
	return cmfsm.ConnParam{
		PrivateData:        private,
		ResponderResources: resources(c.ResponderResources),
		InitiatorDepth:     resources(c.InitiatorDepth),
		RetryCount:         retries(c.RetryCount),
		RNRRetryCount:      retries(c.RNRRetryCount),
		SRQ:                c.SRQ != nil,
	}
}

func resources(n int) uint8 {
	switch {
	case n == 0:
		return cmfsm.MaxResources
	case n < 0:
		return 0
	}
	return uint8(n)
}

func retries(n int) uint8 {
	switch {
	case n == 0:
		return maxRetries
	case n < 0:
		return 0
	}
	return uint8(n)
}

func (c *Config) options() cmfsm.Options {
	return cmfsm.Options{ReuseAddr: c.ReuseAddr, AFOnly: c.AFOnly, TOS: c.TOS, AckTimeout: c.AckTimeout, MinRNRTimer: c.MinRNRTimer}
}

// limit is the path MTU of a connection over a path that carries mtu.
func (c *Config) limit(mtu verbs.MTU) verbs.MTU {
	if c.MaxMTU != 0 && c.MaxMTU < mtu {
		return c.MaxMTU
	}
	return mtu
}
