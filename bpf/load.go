package bpf

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Load loads the program and makes its maps; nothing is attached yet. nil
// options are the defaults. It fails with [ErrPrivilege] without the
// capabilities, with [ErrNotSupported] on a kernel before 5.18, and with
// [ErrBusy] when another process uses the same pin directory.
func Load(o *Options) (*Steer, error) {
	s := &Steer{}
	if err := s.load(o); err != nil {
		s.Close()
		return nil, opError("load", "", err)
	}
	return s, nil
}

func (s *Steer) load(o *Options) error {
	opts, err := o.withDefaults()
	if err != nil {
		return err
	}
	if err := checkDescriptors(); err != nil {
		return err
	}
	spec, err := loadSteer()
	if err != nil {
		return err
	}
	spec.Maps[steerMapXsks].MaxEntries = uint32(opts.Queues)
	if err := spec.LoadAndAssign(&s.objects, nil); err != nil {
		return explainLoad(err, ProbeFrags)
	}
	if err := s.mapMemory(); err != nil {
		return err
	}
	s.config.words[configUnknownQPN].Store(opts.UnknownQPN.xdp())
	s.config.words[configNoSocket].Store(opts.NoSocket.xdp())
	if opts.PinDir != "" {
		s.pins, err = openPins(opts.PinDir)
	}
	return err
}

// mapMemory maps the maps that change without system calls.
func (s *Steer) mapMemory() (err error) {
	if s.qpns, err = mapWords[atomic.Uint64](s.objects.Qpns.FD(), QPNWords); err != nil {
		return err
	}
	s.config, err = mapWords[atomic.Uint32](s.objects.Config.FD(), configWords)
	return err
}

// explainLoad finds out why the kernel refused; probe tries the newest feature
// that is needed. Locked memory is no cause: since 5.11 that of maps does not
// count, and older kernels lack xdp.frags.
func explainLoad(err error, probe func() error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w (%w)", ErrPrivilege, err)
	}
	if scarce(err) {
		return explainScarce(err)
	}
	// The verifier's own message does not name a missing feature: ask.
	if missing := probe(); errors.Is(missing, ErrNotSupported) {
		return fmt.Errorf("%w (%w)", missing, err)
	}
	var verifier *ebpf.VerifierError
	if errors.As(err, &verifier) {
		return fmt.Errorf("the verifier of this kernel refuses the program, please report it with the whole log "+
			"(%%+v of the *ebpf.VerifierError): %w", err)
	}
	return err
}
