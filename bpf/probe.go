package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// Oldest kernels with what we use.
const (
	// MinKernel can load the steering program: it knows xdp.frags.
	MinKernel = "5.18"
	// MinKernelMultiBuffer has AF_XDP sockets that take frames of several buffers,
	// which a path MTU of 4096 needs.
	MinKernelMultiBuffer = "6.6"
)

// progHasFrags is BPF_F_XDP_HAS_FRAGS.
const progHasFrags = 1 << 5

// ProbeFrags tries whether XDP programs may see frames of several buffers. It
// needs the capabilities of [Load].
func ProbeFrags() error {
	if err := checkDescriptors(); err != nil {
		return opError("probe", "xdp.frags", err)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         "probe_frags",
		Type:         ebpf.XDP,
		Flags:        progHasFrags,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()},
		License:      "Dual BSD/GPL",
	})
	if err != nil {
		return probeError("xdp.frags", MinKernel, err)
	}
	return opError("probe", "xdp.frags", prog.Close())
}

// ProbeMultiBuffer tries whether AF_XDP sockets take frames of several buffers.
// It needs CAP_NET_RAW.
func ProbeMultiBuffer() error {
	const what = "AF_XDP with several buffers for a frame"
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return probeError(what, MinKernelMultiBuffer, err)
	}
	defer unix.Close(fd)
	// No interface has index 0. Flags are checked first: a kernel that knows this
	// one goes on to miss the interface.
	err = unix.Bind(fd, &unix.SockaddrXDP{Flags: unix.XDP_USE_SG})
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return probeError(what, MinKernelMultiBuffer, err)
}

// probeError tells a missing feature from a missing capability, and from what says
// nothing about the kernel.
func probeError(what, minimum string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		err = fmt.Errorf("%w (%w)", ErrPrivilege, err)
	case saysUnsupported(err):
		err = fmt.Errorf("%w: it needs Linux %s or later, this is %s (%w)", ErrNotSupported, minimum, kernelRelease(), err)
	default:
		err = explainScarce(err)
	}
	return opError("probe", what, err)
}

// saysUnsupported reports whether err is what a kernel answers that does not know what
// was asked for: a flag, a type, a field, a family, a system call.
func saysUnsupported(err error) bool {
	for _, errno := range []error{
		ebpf.ErrNotSupported, unix.EINVAL, unix.E2BIG, unix.EAFNOSUPPORT, unix.ESOCKTNOSUPPORT, unix.EPROTONOSUPPORT,
		unix.EOPNOTSUPP, unix.ENOSYS,
	} {
		if errors.Is(err, errno) {
			return !scarce(err) // which makes the library miss features
		}
	}
	return false
}

// scarce reports whether err says that there was too little of something.
func scarce(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// explainScarce adds to such an error what to do about it, and nothing to others.
func explainScarce(err error) error {
	switch {
	case errors.Is(err, unix.EMFILE):
		return fmt.Errorf("the process has no descriptors left, raise their number (ulimit -n, LimitNOFILE= of the systemd unit): %w", err)
	case errors.Is(err, unix.ENFILE):
		return fmt.Errorf("the system has no descriptors left, raise their number (sysctl fs.file-max): %w", err)
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("the system has no memory left, or the control group of the process (MemoryMax= of the systemd unit): %w", err)
	}
	return err
}

func kernelRelease() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}
