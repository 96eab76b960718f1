package bpf

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// loadDescriptors are no fewer than a load has open at a time: the program, its maps, and
// what is tried meanwhile.
const loadDescriptors = 16

// checkDescriptors fails if there are too few descriptors for a load. The library would take
// that for features which the kernel lacks, and remember it for as long as the process runs.
func checkDescriptors() error {
	held := make([]int, 0, loadDescriptors)
	defer func() {
		for _, fd := range held {
			_ = unix.Close(fd) // nobody has used it
		}
	}()
	for range loadDescriptors {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return fmt.Errorf("loading a program takes %d descriptors: %w", loadDescriptors, explainScarce(err))
		}
		held = append(held, fd)
	}
	return nil
}
