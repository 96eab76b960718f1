package bpf

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf/link"
)

// takeOver replaces the program behind the pinned link. Without pins, or without
// a pinned link of a living interface, the attachment has no link.
func (s *Steer) takeOver(d device, mode Mode) (attachment, error) {
	if s.pins == nil {
		return attachment{}, nil
	}
	path := s.pins.path(pinLink)
	l, err := link.LoadPinnedLink(path, nil)
	if err != nil {
		return attachment{}, ignoreMissing(err)
	}
	alive, err := checkPinned(l, d, mode, path)
	if err == nil && alive {
		err = l.Update(s.objects.Steer)
	}
	if err != nil || !alive {
		err = errors.Join(err, l.Close())
	}
	if err != nil {
		return attachment{}, err
	}
	if !alive {
		return attachment{}, ignoreMissing(os.Remove(path))
	}
	a := attachment{link: l, mode: d.xdpMode, pinned: true}
	if mode == ModeAuto && d.xdpMode == ModeGeneric {
		a.fallback = fmt.Errorf("bpf: %s runs XDP in generic mode, which costs a copy of every frame: "+
			"the link that was pinned in %s is generic", d.name, s.pins.dir)
	}
	return a, nil
}

// checkPinned tells whether the pinned link still holds an interface, and fails
// when that is not the one that is to be attached, as it is to be attached.
func checkPinned(l link.Link, d device, mode Mode, path string) (alive bool, err error) {
	info, err := l.Info()
	if err != nil {
		return false, err
	}
	xdp := info.XDP()
	switch {
	case xdp == nil:
		return false, fmt.Errorf("%w: %s is not a link of XDP", ErrPin, path)
	case xdp.Ifindex == 0: // the interface was deleted
		return false, nil
	case int(xdp.Ifindex) != d.index || d.xdpProgram != uint32(info.Program):
		// The second half: the same index in another network namespace.
		return false, fmt.Errorf("%w: %s holds interface %d, which is not %s of this network namespace: "+
			"choose another directory, or detach that one first", ErrPin, path, xdp.Ifindex, d.name)
	case mode != ModeAuto && mode != d.xdpMode:
		return false, fmt.Errorf("%w: %s is attached in %s mode and a link cannot change its mode: "+
			"detach it first", ErrPin, path, d.xdpMode)
	}
	return true, nil
}
