package bpf

import (
	"errors"
	"fmt"
	"math"

	"github.com/vishvananda/netlink"
)

// device is what the kernel tells about an interface.
type device struct {
	index    int
	name     string
	kind     string // "veth", "device" and so on
	rxQueues int
	mtu      int
	// xdpMode and xdpProgram describe the XDP program that it has; ModeAuto is none.
	// A device with programs in several modes counts as native.
	xdpMode    Mode
	xdpProgram uint32
}

// lookupDevice asks in the network namespace of the calling thread.
func lookupDevice(index int) (device, error) {
	if index < 1 || index > math.MaxInt32 {
		return device{}, fmt.Errorf("%w: index %d", ErrNoDevice, index)
	}
	l, err := netlink.LinkByIndex(index)
	if err != nil {
		var missing netlink.LinkNotFoundError
		if errors.As(err, &missing) {
			return device{}, fmt.Errorf("%w: index %d in this network namespace (%w)", ErrNoDevice, index, err)
		}
		return device{}, err
	}
	a := l.Attrs()
	d := device{index: index, name: a.Name, kind: l.Type(), rxQueues: a.NumRxQueues, mtu: a.MTU}
	if a.Xdp != nil && a.Xdp.Attached {
		d.xdpProgram, d.xdpMode = a.Xdp.ProgId, ModeNative
		if a.Xdp.AttachMode == xdpAttachedGeneric {
			d.xdpMode = ModeGeneric
		}
	}
	return d, nil
}

// xdpAttachedGeneric is XDP_ATTACHED_SKB of if_link.h.
const xdpAttachedGeneric = 2

// nameWith is how errors name the device and the mode that was tried.
func (d device) nameWith(m Mode) string { return d.name + " (" + m.String() + ")" }
