package cmengine

import (
	"github.com/roce-xdp/roce-xdp/internal/cmfsm"
	"github.com/roce-xdp/roce-xdp/verbs"
)

type counter uint8

// What the engine counts besides the machine.
const (
	ctrNotGSI     counter = iota // datagrams that are not from a queue pair 1
	ctrNoReply                   // datagrams to what is no own address (any more)
	ctrNoPath                    // datagrams to send that had no way, or waited for one with too many others
	ctrSendErrors                // datagrams that the device did not take
	numCounters
)

type counters [numCounters]uint64

var counterNames = [numCounters]string{"cm_rx_not_gsi", "cm_rx_no_reply", "cm_tx_no_path", "cm_tx_errors"}

// values are all counters in a stable order, the machine's first. The lock is held.
func (e *Engine) values() []verbs.CounterValue {
	m := e.m.Counters()
	out := make([]verbs.CounterValue, 0, len(m)+len(e.count))
	for i, v := range m {
		out = append(out, verbs.CounterValue{Name: cmfsm.Counter(i).String(), Value: v})
	}
	for i, v := range e.count {
		out = append(out, verbs.CounterValue{Name: counterNames[i], Value: v})
	}
	return out
}
