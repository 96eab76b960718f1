package resolve

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// discard is the port whose datagrams everybody throws away (RFC 863).
const discard = 9

// probe sends empty datagrams, so that the kernel asks for the link-layer address
// of whom they go to. That needs no privileges.
type probe struct {
	fd  int
	is4 bool // the kernel has no IPv6
}

func newProbe() (*probe, error) {
	p := &probe{}
	var err error
	p.fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		p.is4 = true
		p.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	}
	if err == nil && !p.is4 {
		if err = unix.SetsockoptInt(p.fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0); err != nil {
			_ = unix.Close(p.fd)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open a socket to probe with: %w", err)
	}
	return p, nil
}

func (p *probe) close() error { return unix.Close(p.fd) }

// send sends a datagram to the next hop. That the socket's queue is full, or that
// an earlier datagram was refused by its receiver, is no error: another follows.
func (p *probe) send(l leg) error {
	control, to := p.address(l)
	_, err := unix.SendmsgN(p.fd, nil, control, to, 0)
	for _, passing := range []error{unix.EAGAIN, unix.ENOBUFS, unix.ECONNREFUSED, unix.EHOSTUNREACH} {
		if errors.Is(err, passing) {
			return nil
		}
	}
	return err
}

// address is where a probe goes and the control message that has it leave by the
// interface.
func (p *probe) address(l leg) (control []byte, to unix.Sockaddr) {
	if p.is4 {
		return unix.PktInfo4(&unix.Inet4Pktinfo{Ifindex: int32(l.oif), Spec_dst: l.src.As4()}), &unix.SockaddrInet4{Port: discard, Addr: l.hop.As4()}
	}
	dst := &unix.SockaddrInet6{Port: discard, Addr: l.hop.As16()}
	if l.hop.Is6() && (l.hop.IsLinkLocalUnicast() || l.hop.IsLinkLocalMulticast()) {
		dst.ZoneId = uint32(l.oif)
	}
	src := l.src
	if src.Is4() != l.hop.Is4() { // a gateway of the other family
		src = netip.IPv6Unspecified()
		if l.hop.Is4() {
			src = netip.IPv4Unspecified()
		}
	}
	return unix.PktInfo6(&unix.Inet6Pktinfo{Ifindex: uint32(l.oif), Addr: src.As16()}), dst
}
