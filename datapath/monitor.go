package datapath

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/cm/resolve"
)

// monitor keeps a device in step with its interface: addresses, link state, MTU,
// neighbours, routes. What the kernel tells is taken as a sign to look again, so that a
// message that was lost, or two that came at once, do no harm.
type monitor struct {
	dev    *Device
	handle *netlink.Handle
	socket *nl.NetlinkSocket
	index  int
	uppers map[int]bool // interfaces on top of it
	fd     int          // of a socket in the namespace of the interface, to ask for its speed
	ended  chan struct{}
	routed chan struct{} // closed when the rerouting has ended
}

// newMonitor subscribes in the namespace of the calling thread.
func newMonitor(d *Device, handle *netlink.Handle, index int) (*monitor, error) {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE,
		unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_NEIGH,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE)
	if err != nil {
		return nil, fmt.Errorf("watch addresses and links: %w", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("watch the link's speed: %w", err)
	}
	return &monitor{dev: d, handle: handle, socket: s, index: index, fd: fd, ended: make(chan struct{}), routed: make(chan struct{})}, nil
}

// close ends run and returns when it has.
func (m *monitor) close() error {
	m.socket.Close()
	<-m.ended
	<-m.routed // the device is closed
	return unix.Close(m.fd)
}

// run follows the interface until close.
func (m *monitor) run() {
	defer close(m.ended)
	go m.dev.reroute(m.routed)
	m.look() // what happened before the subscription
	for {
		msgs, from, err := m.socket.Receive()
		switch {
		case err == nil:
		case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			m.look() // messages were lost
			m.dev.wantReroute()
			continue
		default: // closed
			return
		}
		if from.Pid != 0 { // not from the kernel
			continue
		}
		look := false
		for i := range msgs {
			switch msgs[i].Header.Type {
			case unix.RTM_NEWLINK, unix.RTM_DELLINK, unix.RTM_NEWADDR, unix.RTM_DELADDR:
				look = look || m.concerns(&msgs[i])
			case unix.RTM_NEWNEIGH:
				m.neighbour(&msgs[i])
			case unix.RTM_NEWROUTE, unix.RTM_DELROUTE, unix.RTM_NEWRULE, unix.RTM_DELRULE:
				m.dev.wantReroute()
			}
		}
		if look {
			m.look()
		}
	}
}

// look reads the state of the interface and tells the device.
func (m *monitor) look() {
	link, err := m.handle.LinkByIndex(m.index)
	if err != nil {
		var missing netlink.LinkNotFoundError
		if errors.As(err, &missing) || errors.Is(err, unix.ENODEV) {
			m.dev.mu.Lock()
			gone := m.dev.link
			m.dev.mu.Unlock()
			gone.gone, gone.running = true, false
			m.dev.setLink(gone)
			_ = m.dev.setAddresses(nil) // the program is off with the interface
		}
		return
	}
	info := linkInfoOf(link)
	info.speed = linkSpeed(m.fd, info.name)
	m.dev.setLink(info)
	if list, uppers, err := ownOf(m.handle, link); err == nil {
		m.uppers = uppers
		// What the XDP program cannot be told, the next look tries again.
		_ = m.dev.setOwn(list)
	}
}

// concerns reports whether a message about a link or an address is about the
// interface, one on top of it, or one that begins to be.
func (m *monitor) concerns(msg *syscall.NetlinkMessage) bool {
	const indexAt, size = 4, 8 // of ifinfomsg and ifaddrmsg alike, that of ifaddrmsg
	if len(msg.Data) < size {
		return false
	}
	index := int(int32(nl.NativeEndian().Uint32(msg.Data[indexAt:])))
	if index == m.index || m.uppers[index] {
		return true
	}
	if t := msg.Header.Type; t != unix.RTM_NEWLINK && t != unix.RTM_DELLINK || len(msg.Data) < unix.SizeofIfInfomsg {
		return false
	}
	attrs, err := resolve.Attributes(msg.Data[unix.SizeofIfInfomsg:])
	if err != nil {
		return true
	}
	for i := range attrs {
		if attrs[i].Attr.Type == unix.IFLA_LINK && len(attrs[i].Value) == 4 {
			return int(int32(nl.NativeEndian().Uint32(attrs[i].Value))) == m.index
		}
	}
	return false
}

func (m *monitor) neighbour(msg *syscall.NetlinkMessage) {
	n, err := netlink.NeighDeserialize(msg.Data)
	if err != nil || n.LinkIndex != m.index && !m.uppers[n.LinkIndex] {
		return
	}
	if addr, mac, ok := resolve.UsableNeighbour(n); ok {
		m.dev.neighbourChanged(n.LinkIndex, addr, mac)
	}
}

// linkInfoOf takes what counts out of a link.
func linkInfoOf(link netlink.Link) linkInfo {
	a := link.Attrs()
	info := linkInfo{
		name:    a.Name,
		index:   a.Index,
		mtu:     a.MTU,
		running: a.Flags&net.FlagUp != 0 && a.RawFlags&unix.IFF_RUNNING != 0,
	}
	if len(a.HardwareAddr) == len(info.mac) {
		info.mac = [6]byte(a.HardwareAddr)
	}
	return info
}
