// Package peercred tells who is at the other end of a unix socket.
package peercred

import (
	"fmt"
	"net"
	"slices"

	"golang.org/x/sys/unix"
)

// Cred are the credentials that a process had when it connected.
type Cred struct {
	PID    int
	UID    uint32
	GID    uint32
	Groups []uint32 // supplementary ones; GID may be among them
}

// In reports whether the process is a member of the group.
func (c *Cred) In(gid uint32) bool { return c.GID == gid || slices.Contains(c.Groups, gid) }

// Of asks the kernel about the peer of a connection.
func Of(c *net.UnixConn) (Cred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Cred{}, err
	}
	var cred Cred
	var inner error
	if err := raw.Control(func(fd uintptr) { cred, inner = OfFD(int(fd)) }); err != nil {
		return Cred{}, err
	}
	return cred, inner
}

// OfFD is Of for a descriptor.
func OfFD(fd int) (Cred, error) {
	u, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Cred{}, fmt.Errorf("credentials of the peer: %w", err)
	}
	c := Cred{PID: int(u.Pid), UID: u.Uid, GID: u.Gid}
	if c.Groups, err = peerGroups(fd); err != nil {
		return Cred{}, fmt.Errorf("groups of the peer: %w", err)
	}
	return c, nil
}
