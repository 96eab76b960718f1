package datapath

import (
	"fmt"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// xdpProgram is what an operator changes of the XDP program while it runs. Devices
// without an interface have none.
type xdpProgram interface {
	SetUnknownQPN(bpf.Action) error
	SetNoSocket(bpf.Action) error
	Unpin() error
	TookOver() bool
	Fallback() error
}

func (d *Device) program() (xdpProgram, error) {
	if p, ok := d.steer.(xdpProgram); ok {
		return p, nil
	}
	return nil, fmt.Errorf("%w: it has no XDP program", ErrUnsupported)
}

// SetActions changes Options.UnknownQPN and Options.NoSocket while the device works.
func (d *Device) SetActions(unknownQPN, noSocket bpf.Action) error {
	p, err := d.program()
	if err != nil {
		return err
	}
	if err := p.SetUnknownQPN(unknownQPN); err != nil {
		return err
	}
	return p.SetNoSocket(noSocket)
}

// Unpin removes the pins of Options.PinDir: the XDP program then ends with the
// device. Without pins it does nothing.
func (d *Device) Unpin() error {
	p, err := d.program()
	if err != nil {
		return err
	}
	return p.Unpin()
}

// TookOver reports whether the pins of Options.PinDir were there before the device was
// opened, which has put its XDP program in place of another's.
func (d *Device) TookOver() bool {
	p, err := d.program()
	return err == nil && p.TookOver()
}

// HugePages reports whether Options.HugePages is set and, if packet memory is in
// ordinary pages nevertheless, what is missing.
func (d *Device) HugePages() (asked bool, lack error) {
	if d.opts.HugePages && !d.umem.HugePages() {
		n := (d.umem.Frames()*d.umem.FrameSize() + shm.HugePage - 1) / shm.HugePage
		lack = fmt.Errorf("packet memory is in ordinary pages, for want of %d free huge pages of 2 MiB: raise vm.nr_hugepages, or this container's limit of them", n)
	}
	return d.opts.HugePages, lack
}

// Fallback tells why bpf.ModeAuto took the generic mode, which costs a copy of every
// frame, and is nil otherwise.
func (d *Device) Fallback() error {
	p, err := d.program()
	if err != nil {
		return nil //nolint:nilerr // without a program there is nothing that could be slow
	}
	return p.Fallback()
}
