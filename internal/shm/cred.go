package shm

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Cred is who is at the other end of a socket, as the kernel knows it. It was so when
// the peer connected.
type Cred struct {
	PID    int
	UID    uint32
	GID    uint32
	Groups []uint32 // supplementary ones; GID may be among them
}

// In reports whether the process was a member of the group.
func (c *Cred) In(gid uint32) bool { return c.GID == gid || slices.Contains(c.Groups, gid) }

// Cred tells who has connected.
func (c *Conn) Cred() (Cred, error) { return credOf(c.rc) }

// CredOf is Conn.Cred for a stream.
func CredOf(c *net.UnixConn) (Cred, error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return Cred{}, err
	}
	return credOf(rc)
}

func credOf(rc syscall.RawConn) (cred Cred, err error) {
	var u *unix.Ucred
	var cerr, gerr error
	err = rc.Control(func(fd uintptr) {
		u, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		cred.Groups, gerr = peerGroups(int(fd))
	})
	if err := errors.Join(err, cerr, gerr); err != nil {
		return Cred{}, fmt.Errorf("credentials of the peer: %w", err)
	}
	cred.PID, cred.UID, cred.GID = int(u.Pid), u.Uid, u.Gid
	return cred, nil
}
