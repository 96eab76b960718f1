package xsk

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestOptionsComplete(t *testing.T) {
	def := Options{FillSize: 2048, CompSize: 2048, RxSize: 2048, TxSize: 2048, TxBudget: 256}
	with := func(change func(*Options)) Options {
		o := def
		change(&o)
		return o
	}
	for _, tc := range []struct {
		name string
		in   *Options
		want Options
	}{
		{"nil", nil, def},
		{"zero", &Options{}, def},
		{"sizes", &Options{FillSize: 4096, CompSize: 1, RxSize: 64, TxSize: 512}, Options{FillSize: 4096, CompSize: 1, RxSize: 64, TxSize: 512, TxBudget: 256}},
		{"budget", &Options{TxBudget: 100}, with(func(o *Options) { o.TxBudget = 100 })},
		{"budget below the kernel's", &Options{TxBudget: 1}, with(func(o *Options) { o.TxBudget = 32 })},
		{"budget above the ring", &Options{TxBudget: 9999}, with(func(o *Options) { o.TxBudget = 2048 })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.in.complete()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got, cmp.AllowUnexported(UMEM{})); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestOptionsErrors(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   Options
		says string
	}{
		{"fill not a power of two", Options{FillSize: 1000}, "FillSize"},
		{"completion negative", Options{CompSize: -1}, "CompSize"},
		{"receive too large", Options{RxSize: 1 << 31}, "RxSize"},
		{"transmit odd", Options{TxSize: 3}, "TxSize"},
		{"mode", Options{Mode: 9}, "mode"},
		{"budget", Options{TxBudget: -1}, "budget"},
		{"busy poll time", Options{BusyPoll: BusyPoll{Usecs: -1}}, "busy poll"},
		{"busy poll budget", Options{BusyPoll: BusyPoll{Usecs: 1, Budget: 65536}}, "busy poll"},
		{"memory", Options{UMEMConfig: UMEMConfig{FrameSize: 5}}, "frame size"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := NewSocket(1, 0, &tc.in)
			if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want ErrConfig that says %q", err, tc.says)
			}
		})
	}
	for _, at := range [][2]int{{0, 0}, {-1, 0}, {1, -1}, {1, 1 << 16}, {1 << 31, 0}} {
		if _, err := NewSocket(at[0], at[1], nil); !errors.Is(err, ErrConfig) {
			t.Errorf("interface %d, queue %d: %v, want ErrConfig", at[0], at[1], err)
		}
	}
}

func TestBindFlags(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts Options
		want uint16
	}{
		{"auto", Options{}, unix.XDP_USE_NEED_WAKEUP},
		{"copy", Options{Mode: Copy}, unix.XDP_COPY | unix.XDP_USE_NEED_WAKEUP},
		{"zero-copy, no wake-up", Options{Mode: ZeroCopy, NoNeedWakeup: true}, unix.XDP_ZEROCOPY},
		{"multi-buffer", Options{MultiBuffer: true, NoNeedWakeup: true}, unix.XDP_USE_SG},
	} {
		if got := (&Socket{opts: tc.opts}).bindFlags(); got != tc.want {
			t.Errorf("%s: flags %#x, want %#x", tc.name, got, tc.want)
		}
	}
}

func TestModeString(t *testing.T) {
	for m, want := range map[Mode]string{Auto: "auto", Copy: "copy", ZeroCopy: "zero-copy", 7: "unknown"} {
		if m.String() != want {
			t.Errorf("mode %d is %q, want %q", m, m, want)
		}
	}
}

func TestDiagnose(t *testing.T) {
	for _, tc := range []struct {
		op     string
		errno  unix.Errno
		shared bool
		kind   error
		says   string
	}{
		{opSocket, unix.EPERM, false, ErrPermission, "CAP_NET_RAW"},
		{opSocket, unix.EAFNOSUPPORT, false, ErrNotSupported, "CONFIG_XDP_SOCKETS"},
		{opSocket, unix.EMFILE, false, nil, "LimitNOFILE="},
		{opSocket, unix.ENFILE, false, nil, "fs.file-max"},
		{opRegister, unix.ENOBUFS, false, ErrMemlock, "ulimit -l"},
		{opRegister, unix.EINVAL, false, ErrNotSupported, "frame size"},
		{opRegister, unix.EFAULT, false, ErrConfig, "not mapped"},
		{opBind, unix.ENODEV, false, ErrNoDevice, "ip link"},
		{opBind, unix.EBUSY, false, ErrQueueBusy, "another queue"},
		{opBind, unix.EINVAL, false, ErrNoQueue, "ethtool -l"},
		{opBind, unix.EOPNOTSUPP, false, ErrNoZeroCopy, "Auto or Copy"},
		{opBind, unix.EOPNOTSUPP, true, ErrNoZeroCopy, "first socket"},
		{opBind, unix.ENETDOWN, false, ErrDown, "ip link set up"},
		{opBind, unix.EBADF, true, ErrConfig, "not bound"},
		{opBusyPoll, unix.EPERM, false, ErrPermission, "CAP_NET_ADMIN"},
		{opBusyPoll, unix.ENOPROTOOPT, false, ErrNotSupported, "5.11"},
		{opMap, unix.ENOMEM, false, nil, "cannot allocate memory"},
	} {
		s := &Socket{ifindex: 4, queue: 2, shared: tc.shared}
		err := s.explain(tc.op, tc.errno)
		if tc.kind != nil && !errors.Is(err, tc.kind) || !errors.Is(err, tc.errno) {
			t.Errorf("%s, %v: %v, want %v", tc.op, tc.errno, err, tc.kind)
		}
		for _, part := range []string{"xsk: " + tc.op, "interface 4, queue 2", tc.says} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s, %v: %q does not say %q", tc.op, tc.errno, err, part)
			}
		}
	}
	if !errors.Is(ErrGone, ErrDown) || errors.Is(ErrDown, ErrGone) {
		t.Error("ErrGone must be an ErrDown and not the other way round")
	}
}

func TestErrnoOf(t *testing.T) {
	if got := errnoOf(errors.New("no errno")); got != unix.EIO {
		t.Errorf("errno %v for an error without one", got)
	}
}
