package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Steer is the loaded program with its maps, and its link to an interface once
// [Steer.Attach] has succeeded. Its methods are safe for concurrent use; they
// are for the control path, nothing of a datapath calls them per frame.
type Steer struct {
	mu      sync.Mutex
	closed  bool
	objects steerObjects
	qpns    mapping[atomic.Uint64]
	config  mapping[atomic.Uint32]
	pins    *pins // nil: not pinned

	link     link.Link // nil: not attached
	device   device
	mode     Mode
	fallback error
	tookOver bool // link came from the pin directory
}

// Words of struct config in maps.h.
const (
	configUnknownQPN = iota
	configNoSocket
	configWords
)

// SetUnknownQPN changes [Options].UnknownQPN while the program runs.
func (s *Steer) SetUnknownQPN(a Action) error {
	return s.setConfig("set unknown_qpn", configUnknownQPN, a)
}

// SetNoSocket changes [Options].NoSocket while the program runs.
func (s *Steer) SetNoSocket(a Action) error {
	return s.setConfig("set no_socket", configNoSocket, a)
}

func (s *Steer) setConfig(op string, word int, a Action) error {
	if a > ActionPass {
		return opError(op, a.String(), ErrRange)
	}
	return s.locked(op, a, func() error {
		s.config.words[word].Store(a.xdp())
		return nil
	})
}

// Register makes the AF_XDP socket fd the receiver of queue's frames, replacing
// the one before it. Frames reach it once it is bound to that queue of the
// interface; until then the kernel drops them. It forgets the socket by itself
// when that is closed.
func (s *Steer) Register(queue, fd int) error {
	return s.locked("register", queueName(queue), func() error {
		key, err := s.slot(queue)
		if err != nil {
			return err
		}
		err = s.objects.Xsks.Put(key, uint32(fd))
		return explainRegister(fd, err)
	})
}

// Unregister takes the socket of queue away: frames of the queue then get the
// no_socket action. It is no error that there is none.
func (s *Steer) Unregister(queue int) error {
	return s.locked("unregister", queueName(queue), func() error {
		key, err := s.slot(queue)
		if err != nil {
			return err
		}
		err = s.objects.Xsks.Delete(key)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		return err
	})
}

// Queues is the number of queues that sockets can be registered for.
func (s *Steer) Queues() int { return int(s.objects.Xsks.MaxEntries()) }

// AttachedMode tells how the program is attached: ModeNative or ModeGeneric, and
// ModeAuto while it is not attached.
func (s *Steer) AttachedMode() Mode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode
}

// TookOver reports whether Attach found the link in the pin directory: the pins were there
// before, and are not this process's alone to remove.
func (s *Steer) TookOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tookOver
}

// Fallback tells why ModeAuto took the generic mode, and is nil otherwise. The
// generic mode costs a copy and a packet allocation for each frame: show this to
// the operator.
func (s *Steer) Fallback() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fallback
}

// Close ends the use of the program. Without a pin directory the program is
// detached and nothing is left behind. With one, the program stays attached and
// gives frames the no_socket action until the next process takes over; use
// [Steer.Detach] or [Steer.Unpin] before Close to end that. Further calls do
// nothing.
func (s *Steer) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	if s.link != nil {
		errs = append(errs, s.link.Close())
		s.link, s.mode = nil, ModeAuto
	}
	errs = append(errs, s.qpns.unmap(), s.config.unmap(), s.objects.Close())
	if s.pins != nil {
		errs = append(errs, s.pins.close())
	}
	return opError("close", "", errors.Join(errs...))
}

// slot turns a queue number into a key of the socket map.
func (s *Steer) slot(queue int) (uint32, error) {
	if queue < 0 || queue >= s.Queues() {
		return 0, rangeError("queue %d, want 0 to %d (Options.Queues)", queue, s.Queues()-1)
	}
	return uint32(queue), nil
}

// queueName names a receive queue in errors.
type queueName int

func (q queueName) String() string { return "queue " + strconv.Itoa(int(q)) }

// locked runs f unless the Steer is closed. It names the operation and, unless
// that is nil, its object in the error.
func (s *Steer) locked(op string, obj fmt.Stringer, f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := ErrClosed
	if !s.closed {
		err = f()
	}
	if err == nil {
		return nil
	}
	var name string
	if obj != nil {
		name = obj.String()
	}
	return opError(op, name, err)
}

// ignoreMissing is err unless that says that a file does not exist.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
