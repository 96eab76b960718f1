package bpf

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/cilium/ebpf/link"
)

// Attach attaches the program to the interface with that index in the network
// namespace of the calling thread (lock the goroutine to it when namespaces are
// changed). A program of someone else is never replaced: that is [ErrBusy], with
// its name and how to remove it. With ModeAuto a driver's refusal of the native
// mode leads to the generic one, and [Steer.Fallback] then tells why.
//
// With a pin directory that holds a link to this interface, the program behind
// that link is replaced in one step and its mode is kept.
func (s *Steer) Attach(ifindex int, mode Mode) error {
	if mode > ModeGeneric {
		return opError("attach", mode.String(), ErrRange)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return opError("attach", "interface "+strconv.Itoa(ifindex), ErrClosed)
	case s.link != nil:
		return opError("attach", "interface "+strconv.Itoa(ifindex),
			fmt.Errorf("%w to %s: detach first", ErrAttached, s.device.nameWith(s.mode)))
	}
	d, err := lookupDevice(ifindex)
	if err != nil {
		return opError("attach", "interface "+strconv.Itoa(ifindex), err)
	}
	a, err := s.takeOver(d, mode)
	if err == nil && a.link == nil {
		a, err = s.attachNew(d, mode)
	}
	if err == nil && s.pins != nil {
		if err = s.pins.publish(a, s.pinnedMaps()); err != nil && !a.pinned {
			err = errors.Join(err, s.pins.remove())
		}
	}
	if err != nil {
		if a.link != nil {
			err = errors.Join(err, a.link.Close())
		}
		return opError("attach", d.nameWith(mode), err)
	}
	s.link, s.mode, s.fallback, s.device, s.tookOver = a.link, a.mode, a.fallback, d, a.pinned
	return nil
}

// attachment is a link with what is known about it.
type attachment struct {
	link     link.Link
	mode     Mode
	fallback error
	pinned   bool // the link came from the pin directory
}

// attachNew makes a new link.
func (s *Steer) attachNew(d device, mode Mode) (attachment, error) {
	if mode != ModeAuto {
		l, err := s.attachMode(d, mode)
		return attachment{link: l, mode: mode}, err
	}
	l, err := s.attachMode(d, ModeNative)
	if err == nil || !errors.Is(err, ErrRefused) {
		return attachment{link: l, mode: ModeNative}, err
	}
	refusal := err
	if l, err = s.attachMode(d, ModeGeneric); err != nil {
		return attachment{}, fmt.Errorf("native mode: %w; generic mode: %w", refusal, err)
	}
	return attachment{link: l, mode: ModeGeneric, fallback: fmt.Errorf(
		"bpf: %s runs XDP in generic mode, which costs a copy of every frame: %w", d.name, refusal)}, nil
}

func (s *Steer) attachMode(d device, mode Mode) (link.Link, error) {
	l, err := link.AttachXDP(link.XDPOptions{Program: s.objects.Steer, Interface: d.index, Flags: mode.flags()})
	if err != nil {
		return nil, explainAttach(d, mode, err, currentProgram)
	}
	return l, nil
}

// Detach takes the program off the interface and removes the pins. The Steer can
// be attached again. It is no error that it is not attached.
func (s *Steer) Detach() error {
	return s.locked("detach", nil, func() error {
		var errs []error
		if s.pins != nil {
			errs = append(errs, s.pins.remove())
		}
		if s.link != nil {
			// Closing the descriptor is not enough while another process, bpftool for
			// one, holds the link.
			errs = append(errs, detachLink(s.link), s.link.Close())
			s.link, s.mode, s.fallback = nil, ModeAuto, nil
		}
		return errors.Join(errs...)
	})
}

// detachLink breaks the link. Kernels before 5.9 cannot, there Close does it.
func detachLink(l link.Link) error {
	if err := l.Detach(); err != nil && !errors.Is(err, link.ErrNotSupported) {
		return err
	}
	return nil
}
