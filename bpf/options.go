package bpf

import "fmt"

// maxQueues bounds the socket map: above what devices have.
const maxQueues = 1 << 16

// Options for [Load]. The zero value is usable.
type Options struct {
	// Queues is the number of receive queues that sockets can be registered for:
	// queues 0 to Queues-1. Default 64.
	Queues int
	// UnknownQPN is for RoCEv2 frames that are addressed to us but to no queue
	// pair that is registered. It can be changed later.
	UnknownQPN Action
	// NoSocket is for frames to a registered queue pair that arrive on a receive
	// queue without socket, as when no process has the pins. It can be changed later.
	NoSocket Action
	// PinDir is a directory on a BPF file system, see [PinPath]. With it the link
	// and the maps outlive the process: the next process that loads with the same
	// directory and attaches to the same interface replaces the program without
	// a moment in which none is attached. Empty: nothing is pinned.
	PinDir string
}

// withDefaults checks o and fills in defaults; nil is the zero value.
func (o *Options) withDefaults() (Options, error) {
	var v Options
	if o != nil {
		v = *o
	}
	if v.Queues == 0 {
		v.Queues = DefaultQueues
	}
	if v.Queues < 0 || v.Queues > maxQueues {
		return v, fmt.Errorf("%w: %d queues, want 1 to %d", ErrRange, v.Queues, maxQueues)
	}
	if v.UnknownQPN > ActionPass {
		return v, fmt.Errorf("%w: UnknownQPN is %v", ErrRange, v.UnknownQPN)
	}
	if v.NoSocket > ActionPass {
		return v, fmt.Errorf("%w: NoSocket is %v", ErrRange, v.NoSocket)
	}
	return v, nil
}
