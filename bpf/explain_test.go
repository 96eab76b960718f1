package bpf

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// TestExplainAttach goes through the answers of drivers that no test machine has.
func TestExplainAttach(t *testing.T) {
	veth := device{name: "ve0", kind: "veth", rxQueues: 1, mtu: 1500}
	card := device{name: "eth0", kind: "device", rxQueues: 8, mtu: 9000}
	none := func(device) program { return program{} }
	for _, c := range []struct {
		name    string
		d       device
		mode    Mode
		errno   error
		want    error
		refused bool // the next mode may be tried
		words   []string
	}{
		{"no capability", card, ModeNative, unix.EPERM, ErrPrivilege, false, []string{"CAP_NET_ADMIN"}},
		{"gone", card, ModeNative, unix.ENODEV, ErrNoDevice, false, []string{"eth0 is gone"}},
		{"veth's queues", veth, ModeNative, unix.ENOSPC, ErrQueues, true, []string{"peer of ve0", "(1 at most)", "numrxqueues"}},
		{"card's queues", card, ModeNative, unix.ENOSPC, ErrQueues, true, []string{"ethtool -L eth0 combined"}},
		{"veth's MTU", veth, ModeNative, unix.ERANGE, ErrMTU, true, []string{"1500", "peer"}},
		{"card's MTU", card, ModeNative, unix.EMSGSIZE, ErrMTU, true, []string{"9000", "ip link set dev eth0 mtu"}},
		{"no XDP", card, ModeNative, unix.EOPNOTSUPP, ErrRefused, true, []string{"native mode", "lro off"}},
		{"anything", card, ModeNative, unix.EINVAL, ErrRefused, true, []string{"MTU (9000)"}},
		{"out of memory", card, ModeGeneric, unix.ENOMEM, ErrRefused, true, []string{"generic mode"}},
		{"busy", card, ModeNative, unix.EBUSY, ErrBusy, false, []string{"above eth0"}},
		{"busy in the other mode", card, ModeNative, unix.EEXIST, ErrBusy, false, []string{"above eth0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := explainAttach(c.d, c.mode, fmt.Errorf("attach: %w", c.errno), none)
			wantErr(t, err, c.want, c.words...)
			wantErr(t, err, c.errno)
			if got := errors.Is(err, ErrRefused); got != c.refused {
				t.Errorf("wraps ErrRefused: %v, want %v", got, c.refused)
			}
			if n := strings.Count(err.Error(), ErrRefused.Error()); n > 1 {
				t.Errorf("repeats itself: %v", err)
			}
		})
	}
}

func TestDescribeProgram(t *testing.T) {
	d := device{name: "eth0"}
	for _, c := range []struct {
		name string
		p    program
		want []string
		not  string
	}{
		{"nothing on the device", program{}, []string{"above eth0"}, "program 0"},
		{"by a link", program{id: 7, name: "xdp_dispatcher", mode: ModeNative, link: 3, linkKnown: true},
			[]string{`program 7 "xdp_dispatcher"`, "native", "bpftool link detach id 3"}, "ip link"},
		{"by netlink", program{id: 7, name: "fw", mode: ModeNative, linkKnown: true},
			[]string{`program 7 "fw"`, "ip link set dev eth0 xdpdrv off"}, "bpftool"},
		{"by netlink, generic", program{id: 7, name: "fw", mode: ModeGeneric, linkKnown: true},
			[]string{"generic", "ip link set dev eth0 xdpgeneric off"}, "bpftool"},
		{"not readable", program{id: 7, mode: ModeNative},
			[]string{"program 7 is attached", "another daemon", "xdpdrv off", "bpftool link detach"}, `""`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.p.describe(d)
			for _, w := range c.want {
				if !strings.Contains(got, w) {
					t.Errorf("%q does not say %q", got, w)
				}
			}
			if strings.Contains(got, c.not) {
				t.Errorf("%q says %q", got, c.not)
			}
		})
	}
}

func TestExplainLoad(t *testing.T) {
	verifier := fmt.Errorf("load: %w", &ebpf.VerifierError{Cause: unix.EACCES, Log: []string{"R1 invalid"}})
	missing := probeError("xdp.frags", MinKernel, unix.EINVAL)
	for _, c := range []struct {
		name       string
		err, probe error
		want       error
		words      []string
	}{
		{"no capability", unix.EPERM, nil, ErrPrivilege, []string{"docs/privileges.md"}},
		{"out of memory", unix.ENOMEM, nil, unix.ENOMEM, nil},
		{"verifier", verifier, nil, unix.EACCES, []string{"please report"}},
		{"old kernel", unix.EINVAL, missing, ErrNotSupported, []string{"Linux 5.18 or later", kernelRelease()}},
		{"old kernel's verifier", verifier, missing, ErrNotSupported, []string{"R1 invalid"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := explainLoad(c.err, func() error { return c.probe })
			wantErr(t, err, c.want, c.words...)
			if !errors.Is(err, c.err) {
				t.Errorf("%v does not wrap the kernel's error", err)
			}
		})
	}
}

func TestProbeError(t *testing.T) {
	wantErr(t, probeError("xdp.frags", MinKernel, unix.EPERM), ErrPrivilege, "xdp.frags")
	err := probeError("xdp.frags", MinKernel, unix.EINVAL)
	wantErr(t, err, ErrNotSupported, "Linux 5.18 or later", kernelRelease())
	if errors.Is(err, ErrPrivilege) {
		t.Errorf("%v wraps ErrPrivilege", err)
	}
}

// TestProbes: a kernel that runs the other tests has xdp.frags.
func TestProbes(t *testing.T) {
	require(t, ProbeFrags())
	err := ProbeMultiBuffer()
	if errors.Is(err, ErrNotSupported) && !kernelBefore(t, 6, 6) {
		t.Errorf("Linux %s is said not to have it: %v", kernelRelease(), err)
	}
	if err != nil && !errors.Is(err, ErrNotSupported) {
		require(t, err)
	}
}

func kernelBefore(t *testing.T, major, minor int) bool {
	t.Helper()
	var a, b int
	if _, err := fmt.Sscanf(kernelRelease(), "%d.%d", &a, &b); err != nil {
		t.Fatal(err)
	}
	return a < major || a == major && b < minor
}
