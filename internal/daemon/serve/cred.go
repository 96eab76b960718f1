package serve

import (
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// Cred is who a client is: what the kernel says of the process that connected.
type Cred = shm.Cred

// accept takes a connection, and waits a little when the process or the system has
// no descriptor left: others will be closed.
func accept(l *net.UnixListener) (*net.UnixConn, error) {
	for {
		c, err := l.AcceptUnix()
		if !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE) && !errors.Is(err, unix.ENOMEM) && !errors.Is(err, unix.ENOBUFS) &&
			!errors.Is(err, unix.ECONNABORTED) {
			return c, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// commOf is the name of a process, empty if it is gone or in another namespace.
func commOf(pid int) string {
	if pid <= 0 {
		return ""
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(b), "\n")
}
