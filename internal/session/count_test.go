package session

import (
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/internal/shm"
)

// count takes what an eventfd has counted.
func count(t testing.TB, e *shm.Eventfd) uint64 {
	t.Helper()
	var b [8]byte
	_, err := unix.Read(e.FD(), b[:])
	if errors.Is(err, unix.EAGAIN) {
		return 0
	}
	ok(t, err)
	return binary.NativeEndian.Uint64(b[:])
}
