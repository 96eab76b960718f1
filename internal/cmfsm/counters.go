package cmfsm

import (
	"strings"

	"github.com/roce-xdp/roce-xdp/internal/wire"
)

// Counter is something that a machine counts.
type Counter uint8

// Counters. Those of received messages count what has the right form; a reason
// for which it was dropped counts besides.
const (
	CounterRxREQ Counter = iota
	CounterRxMRA
	CounterRxREJ
	CounterRxREP
	CounterRxRTU
	CounterRxDREQ
	CounterRxDREP
	CounterRxSIDRREQ
	CounterRxSIDRREP
	CounterRxLAP
	CounterRxAPR
	CounterTxREQ
	CounterTxMRA
	CounterTxREJ
	CounterTxREP
	CounterTxRTU
	CounterTxDREQ
	CounterTxDREP
	CounterTxSIDRREQ
	CounterTxSIDRREP
	CounterTxLAP
	CounterTxAPR
	CounterRetries     // messages that were repeated
	CounterTimeouts    // messages that nobody answered
	CounterDuplicates  // messages that had come before
	CounterNoListener  // requests to a port where nobody listens
	CounterBacklogFull // requests to a listener, or machine, with too many
	CounterStale       // queue pairs of peers that another connection has
	CounterQueueFull   // MADs lost because NextMAD was not called
	CounterBadLength   // MADs of another size than 256 bytes
	CounterBadHeader   // MADs of another class, version or method
	CounterBadAttr     // MADs of the class that are none of its messages
	CounterBadAddress  // MADs from or to what is no unicast address
	CounterBadMessage  // messages with a communication id 0, or without a CMA header
	CounterUnknownID   // messages about nothing that there is
	CounterWrongPeer   // messages about a connection that are not its peer's
	CounterWrongState  // messages that do not fit the state
	numCounters
)

// Counters are the counters of a machine, by Counter.
type Counters [numCounters]uint64

var counterNames = [numCounters]string{
	CounterRetries: "cm_retries", CounterTimeouts: "cm_timeouts", CounterDuplicates: "cm_duplicates",
	CounterNoListener: "cm_no_listener", CounterBacklogFull: "cm_backlog_full", CounterStale: "cm_stale",
	CounterQueueFull: "cm_queue_full", CounterBadLength: "cm_bad_length", CounterBadHeader: "cm_bad_header",
	CounterBadAttr: "cm_bad_attribute", CounterBadAddress: "cm_bad_address", CounterBadMessage: "cm_bad_message",
	CounterUnknownID: "cm_unknown_id", CounterWrongPeer: "cm_wrong_peer", CounterWrongState: "cm_wrong_state",
}

// String is the name under which the counter is shown.
func (c Counter) String() string {
	switch {
	case c < CounterTxREQ:
		return "cm_rx_" + strings.ToLower((wire.AttrREQ + wire.CMAttr(c-CounterRxREQ)).String())
	case c < CounterRetries:
		return "cm_tx_" + strings.ToLower((wire.AttrREQ + wire.CMAttr(c-CounterTxREQ)).String())
	case c < numCounters:
		return counterNames[c]
	}
	return "cm_unknown"
}

// Counters is a copy of all counters.
func (m *Machine) Counters() Counters { return m.counters }

func (m *Machine) count(c Counter) { m.counters[c]++ }

func (m *Machine) countTx(a wire.CMAttr) { m.counters[CounterTxREQ+Counter(a-wire.AttrREQ)]++ }

func (m *Machine) countRx(a wire.CMAttr) { m.counters[CounterRxREQ+Counter(a-wire.AttrREQ)]++ }
