package shm

import "golang.org/x/sys/unix"

// FDs are descriptors that came with a packet. They are the receiver's to close.
type FDs []int

// Close closes those that Take has not taken.
func (f FDs) Close() {
	for i, fd := range f {
		if fd >= 0 {
			_ = unix.Close(fd) // what a peer has sent: nothing depends on how its end goes
			f[i] = -1
		}
	}
}

// Take is the i-th descriptor, which the caller closes from now on.
func (f FDs) Take(i int) int {
	fd := f[i]
	f[i] = -1
	return fd
}
