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
		{"out of descriptors", card, ModeNative, unix.EMFILE, unix.EMFILE, false, []string{"LimitNOFILE="}},
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
		{"out of memory", unix.ENOMEM, nil, unix.ENOMEM, []string{"MemoryMax="}},
		{"out of descriptors", unix.EMFILE, missing, unix.EMFILE, []string{"ulimit -n"}},
		{"a probe without descriptors", unix.EACCES, probeError("xdp.frags", MinKernel, unix.EMFILE), unix.EACCES, nil},
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
	for _, c := range []struct {
		name        string
		err         error
		unsupported bool
		word        string
	}{
		{"unknown flag", unix.EINVAL, true, "Linux 6.6 or later"},
		{"longer attribute", unix.E2BIG, true, "Linux 6.6 or later"},
		{"unknown family", unix.EAFNOSUPPORT, true, "Linux 6.6 or later"},
		{"no bpf", unix.ENOSYS, true, "Linux 6.6 or later"},
		{"the library's word", fmt.Errorf("map: %w", ebpf.ErrNotSupported), true, "Linux 6.6 or later"},
		{"too many files", unix.EMFILE, false, "LimitNOFILE="},
		{"too many files in the system", unix.ENFILE, false, "fs.file-max"},
		{"no memory", unix.ENOMEM, false, "memory"},
		{"both", errors.Join(ebpf.ErrNotSupported, unix.EMFILE), false, "LimitNOFILE="},
		{"forbidden by a filter", unix.EACCES, false, "permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := probeError("it", MinKernelMultiBuffer, c.err)
			wantErr(t, err, c.err, "probe it", c.word)
			if errors.Is(err, ErrNotSupported) != c.unsupported {
				t.Errorf("%v, want not supported: %v", err, c.unsupported)
			}
		})
	}
}

// TestFewDescriptors: with however few descriptors, what fails says that, and not that
// the kernel is too old.
func TestFewDescriptors(t *testing.T) {
	require(t, ProbeFrags())
	for free := range loadDescriptors + 8 {
		frags, multi, loading := withDescriptors(t, free)
		for name, err := range map[string]error{"frags": frags, "several buffers": multi, "load": loading} {
			if err != nil && (!errors.Is(err, unix.EMFILE) || errors.Is(err, ErrNotSupported)) {
				t.Errorf("%s with %d descriptors: %v", name, free, err)
			}
		}
		if free == 0 {
			wantErr(t, frags, unix.EMFILE, "LimitNOFILE=")
			wantErr(t, multi, unix.EMFILE, "LimitNOFILE=")
			wantErr(t, loading, unix.EMFILE, "LimitNOFILE=")
		}
		if free >= loadDescriptors {
			for name, err := range map[string]error{"frags": frags, "several buffers": multi, "load": loading} {
				if err != nil {
					t.Errorf("%s with %d descriptors, which are enough: %v", name, free, err)
				}
			}
		}
	}
}

// withDescriptors probes and loads with a number of descriptors left.
func withDescriptors(t *testing.T, free int) (frags, multi, loading error) {
	t.Helper()
	var limit unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	var held []int
	defer func() {
		check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
		for _, fd := range held {
			check(t, unix.Close(fd))
		}
	}()
	few := limit
	few.Cur = 256
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		held = append(held, fd)
	}
	if len(held) < free {
		t.Fatalf("there are no %d descriptors to begin with", free)
	}
	for range free {
		check(t, unix.Close(held[len(held)-1]))
		held = held[:len(held)-1]
	}
	frags, multi = ProbeFrags(), ProbeMultiBuffer()
	if errors.Is(multi, ErrNotSupported) && kernelBefore(t, 6, 6) {
		multi = nil // as it is
	}
	s, loading := Load(nil)
	if loading == nil {
		check(t, s.Close())
	}
	return frags, multi, loading
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
