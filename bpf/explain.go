package bpf

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// explainAttach turns the errno of an attach into a cause and a remedy. The
// kernel's own words go to a tracepoint that nobody reads. current tells which
// program the device has.
func explainAttach(d device, mode Mode, err error, current func(device) program) error {
	refused := func(cause error, format string, args ...any) error {
		if !errors.Is(cause, ErrRefused) {
			cause = fmt.Errorf("%w: %w", ErrRefused, cause)
		}
		return fmt.Errorf("%w: %s (%w)", cause, fmt.Sprintf(format, args...), err)
	}
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w (%w)", ErrPrivilege, err)
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return explainScarce(err) // generic mode would lack them too
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%w: %s is gone (%w)", ErrNoDevice, d.name, err)
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
		return fmt.Errorf("%w: %s (%w)", ErrBusy, current(d).describe(d), err)
	case errors.Is(err, unix.ENOSPC) && d.kind == "veth":
		return refused(ErrQueues, "the peer of %s has more transmit queues than %s has receive queues (%d at most): "+
			"lower the peer's with ethtool -L PEER tx N, or make the pair with numrxqueues and numtxqueues alike",
			d.name, d.name, d.rxQueues)
	case errors.Is(err, unix.ENOSPC):
		return refused(ErrQueues, "%s has no queues left to send from XDP: lower their number with ethtool -L %s combined N",
			d.name, d.name)
	case errors.Is(err, unix.ERANGE), errors.Is(err, unix.EMSGSIZE), errors.Is(err, unix.E2BIG):
		return refused(ErrMTU, "its MTU is %d, of its peer perhaps more: lower it with ip link set dev %s mtu 1500", d.mtu, d.name)
	case errors.Is(err, unix.EOPNOTSUPP):
		return refused(ErrRefused, "the driver of %s has no XDP in %s mode, or not while it merges frames "+
			"(ethtool -K %s lro off)", d.name, mode, d.name)
	case errors.Is(err, unix.EINVAL):
		return refused(ErrRefused, "often the MTU (%d) or merging of frames: try ip link set dev %s mtu 1500 and "+
			"ethtool -K %s lro off", d.mtu, d.name, d.name)
	default:
		return refused(ErrRefused, "%s does not take it in %s mode", d.name, mode)
	}
}

// program is what can be learnt about an XDP program of someone else.
type program struct {
	id   uint32 // 0: none on the device itself
	name string // empty: not readable without CAP_SYS_ADMIN
	mode Mode
	// link is the id of the bpf_link that holds it. 0 with linkKnown means that it
	// was attached through netlink.
	link      link.ID
	linkKnown bool
}

// currentProgram looks at the device again: the program may be a new one.
func currentProgram(d device) program {
	now, err := lookupDevice(d.index)
	if err != nil || now.xdpProgram == 0 {
		return program{}
	}
	p := program{id: now.xdpProgram, mode: now.xdpMode}
	if prog, err := ebpf.NewProgramFromID(ebpf.ProgramID(p.id)); err == nil {
		if info, err := prog.Info(); err == nil {
			p.name = info.Name
		}
		prog.Close()
	}
	var links link.Iterator
	defer links.Close()
	for links.Next() {
		info, err := links.Link.Info()
		if err != nil || info.XDP() == nil || info.Program != ebpf.ProgramID(p.id) {
			continue
		}
		// The same program may be on several devices.
		if int(info.XDP().Ifindex) == d.index {
			p.link = links.ID
			break
		}
	}
	p.linkKnown = links.Err() == nil
	return p
}

// describe names the program and the command that removes it.
func (p program) describe(d device) string {
	if p.id == 0 {
		return "one sits on a device above " + d.name + " (bond or team), or was removed meanwhile"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "program %d", p.id)
	if p.name != "" {
		fmt.Fprintf(&b, " %q", p.name)
	}
	byNetlink := "ip link set dev " + d.name + " xdpdrv off"
	if p.mode == ModeGeneric {
		byNetlink = "ip link set dev " + d.name + " xdpgeneric off"
	}
	switch {
	case p.link != 0:
		fmt.Fprintf(&b, " is attached to %s in %s mode by link %d: end the process that holds it, or "+
			"bpftool link detach id %d", d.name, p.mode, p.link, p.link)
	case p.linkKnown:
		fmt.Fprintf(&b, " is attached to %s in %s mode: remove it with %s", d.name, p.mode, byNetlink)
	default:
		fmt.Fprintf(&b, " is attached to %s in %s mode: end the program that has it, such as another daemon, or remove it with %s, or when a link holds it, "+
			"with bpftool link detach (bpftool link shows its id)", d.name, p.mode, byNetlink)
	}
	return b.String()
}

// explainRegister says why the kernel does not take a descriptor as a socket.
func explainRegister(fd int, err error) error {
	switch {
	case errors.Is(err, unix.EBADF):
		return fmt.Errorf("descriptor %d is not open: %w", fd, err)
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOTSOCK):
		return fmt.Errorf("descriptor %d is no AF_XDP socket: %w", fd, err)
	default:
		return err
	}
}
