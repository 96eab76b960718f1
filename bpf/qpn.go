package bpf

import "fmt"

// AddQPN lets frames to the queue pair through to the sockets. QPN 1, which
// carries the connection manager, is like any other; 0 does not exist on RoCE
// and 0xFFFFFF means multicast, which is steered by address alone. It costs no
// system call and takes effect at once; doing it twice is doing it once.
func (s *Steer) AddQPN(qpn uint32) error {
	return s.locked("add", qpnName(qpn), func() error {
		if err := checkQPN(qpn); err != nil {
			return err
		}
		s.qpns.words[qpn/64].Or(1 << (qpn % 64))
		return nil
	})
}

// DelQPN undoes AddQPN. Frames that are on their way already still arrive. It is
// no error that the queue pair is not registered.
func (s *Steer) DelQPN(qpn uint32) error {
	return s.locked("delete", qpnName(qpn), func() error {
		if err := checkQPN(qpn); err != nil {
			return err
		}
		s.qpns.words[qpn/64].And(^(uint64(1) << (qpn % 64)))
		return nil
	})
}

// HasQPN tells whether the queue pair is registered.
func (s *Steer) HasQPN(qpn uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || checkQPN(qpn) != nil {
		return false
	}
	return s.qpns.words[qpn/64].Load()>>(qpn%64)&1 == 1
}

func checkQPN(qpn uint32) error {
	if qpn == 0 || qpn >= QPNMulticast {
		return rangeError("queue pair number %#x, want 1 to 0xfffffe", qpn)
	}
	return nil
}

// qpnName names a queue pair in errors.
type qpnName uint32

func (q qpnName) String() string { return fmt.Sprintf("QPN %#06x", uint32(q)) }

// rangeError wraps ErrRange with what was wrong.
func rangeError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRange, fmt.Sprintf(format, args...))
}
