package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// kernelJoiner has the kernel join groups through sockets that receive nothing:
// it sends the reports, answers queries and opens the interface's filter, and
// when the sockets are closed, by whatever end of the process, it leaves.
type kernelJoiner struct {
	index int
	ns    *os.File // the interface's network namespace

	mu     sync.Mutex
	socks  []*joinSocket
	at     map[netip.Addr]*joinSocket // by group
	closed bool
}

// joinSocket is a socket with memberships. The kernel bounds their number, of
// IPv4 by net.ipv4.igmp_max_memberships, of IPv6 by memory; then another takes
// the next.
type joinSocket struct {
	fd   int
	ip4  bool
	n    int
	full bool
}

const threadNS = "/proc/thread-self/ns/net"

// newKernelJoiner joins on an interface of the calling thread's namespace.
func newKernelJoiner(index int) (*kernelJoiner, error) {
	ns, err := os.Open(threadNS)
	if err != nil {
		return nil, fmt.Errorf("open the network namespace: %w", err)
	}
	return &kernelJoiner{index: index, ns: ns, at: map[netip.Addr]*joinSocket{}}, nil
}

func (j *kernelJoiner) join(group netip.Addr) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	for _, s := range j.socks {
		if s.ip4 != group.Is4() || s.full {
			continue
		}
		err := s.add(j.index, group)
		if err == nil {
			j.at[group] = s
			return nil
		}
		if !errors.Is(err, unix.ENOBUFS) {
			return j.explain(group, err)
		}
		s.full = true
	}
	s, err := j.newSocket(group.Is4())
	if err == nil {
		if err = s.add(j.index, group); err != nil {
			unix.Close(s.fd)
		}
	}
	if err != nil {
		return j.explain(group, err)
	}
	j.socks = append(j.socks, s)
	j.at[group] = s
	return nil
}

func (j *kernelJoiner) explain(group netip.Addr, err error) error {
	why := ""
	switch {
	case errors.Is(err, unix.ENODEV):
		why = ": the interface is gone, or IPv6 is off on it"
	case errors.Is(err, unix.EAFNOSUPPORT):
		why = ": this kernel has no IPv6"
	}
	return fmt.Errorf("%w %s: %w%s", ErrGroup, group, err, why)
}

// leave is no error on a group that is not joined.
func (j *kernelJoiner) leave(group netip.Addr) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.at[group]
	if s == nil {
		return nil
	}
	delete(j.at, group)
	s.full = false
	if s.n--; s.n == 0 {
		j.socks = slices.DeleteFunc(j.socks, func(have *joinSocket) bool { return have == s })
		return unix.Close(s.fd)
	}
	err := s.drop(j.index, group)
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EADDRNOTAVAIL) {
		return nil // it went with the interface
	}
	return err
}

// close leaves all groups.
func (j *kernelJoiner) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	errs := []error{j.ns.Close()}
	for _, s := range j.socks {
		errs = append(errs, unix.Close(s.fd))
	}
	j.socks, j.at = nil, nil
	return errors.Join(errs...)
}

func (s *joinSocket) add(index int, group netip.Addr) error {
	err := s.set(index, group, unix.IP_ADD_MEMBERSHIP, unix.IPV6_JOIN_GROUP)
	if err == nil {
		s.n++
	}
	return err
}

func (s *joinSocket) drop(index int, group netip.Addr) error {
	return s.set(index, group, unix.IP_DROP_MEMBERSHIP, unix.IPV6_LEAVE_GROUP)
}

func (s *joinSocket) set(index int, group netip.Addr, opt4, opt6 int) error {
	if s.ip4 {
		return unix.SetsockoptIPMreqn(s.fd, unix.IPPROTO_IP, opt4, &unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(index)})
	}
	return unix.SetsockoptIPv6Mreq(s.fd, unix.IPPROTO_IPV6, opt6, &unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(index)})
}

func (j *kernelJoiner) newSocket(ip4 bool) (*joinSocket, error) {
	s := &joinSocket{ip4: ip4}
	family := unix.AF_INET6
	if ip4 {
		family = unix.AF_INET
	}
	err := inNamespace(j.ns, func() (err error) {
		s.fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	return s, err
}

// inNamespace runs fn on a thread that is in a network namespace. It needs
// CAP_SYS_ADMIN unless the calling thread is there already.
func inNamespace(ns *os.File, fn func() error) error {
	var want, have unix.Stat_t
	if err := unix.Fstat(int(ns.Fd()), &want); err != nil {
		return err
	}
	runtime.LockOSThread()
	err := unix.Stat(threadNS, &have)
	if err == nil && have.Dev == want.Dev && have.Ino == want.Ino {
		defer runtime.UnlockOSThread()
		return fn()
	}
	runtime.UnlockOSThread()
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("enter the network namespace of the interface: %w", err)
			return
		}
		result <- fn()
	}()
	return <-result
}
