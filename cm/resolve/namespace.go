package resolve

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Namespace is the number of the calling thread's network namespace, which no other
// has had since the machine was started (SO_NETNS_COOKIE of Linux 5.14): the index of
// an interface means something only together with it.
func Namespace() (uint64, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("tell the network namespace: %w", err)
	}
	defer unix.Close(fd)
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("tell the network namespace: %w", err)
	}
	return cookie, nil
}
