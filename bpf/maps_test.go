package bpf

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
)

func TestQPNs(t *testing.T) {
	s := load(t, nil)
	check(t, s.AddAddress(ours4))
	for _, n := range []uint32{1, 2, 31, 32, 63, 64, 65, 0x123456, 0x7fffff, 0x800000, 0xfffffd, 0xfffffe} {
		t.Run(fmt.Sprintf("%#x", n), func(t *testing.T) {
			frame := roce(qpn(n))
			for _, step := range []struct {
				name string
				do   func(uint32) error
				want Verdict
			}{
				{"at first", func(uint32) error { return nil }, VerdictDropQPN},
				{"added", s.AddQPN, VerdictDropNoSocket},
				{"added twice", s.AddQPN, VerdictDropNoSocket},
				{"deleted", s.DelQPN, VerdictDropQPN},
				{"deleted twice", s.DelQPN, VerdictDropQPN},
			} {
				check(t, step.do(n))
				if got := verdictOf(t, s, frame, nil); got != step.want {
					t.Errorf("%s: verdict %v, want %v", step.name, got, step.want)
				}
				if got, want := s.HasQPN(n), step.want == VerdictDropNoSocket; got != want {
					t.Errorf("%s: HasQPN is %v", step.name, got)
				}
			}
		})
	}
}

func TestQPNRange(t *testing.T) {
	s := load(t, nil)
	for _, n := range []uint32{0, 0xffffff, 0x1000000, 0x1000011, 1<<32 - 1} {
		wantErr(t, s.AddQPN(n), ErrRange, "add QPN", "0xfffffe")
		wantErr(t, s.DelQPN(n), ErrRange, "delete QPN")
		if s.HasQPN(n) {
			t.Errorf("HasQPN(%#x)", n)
		}
	}
}

// TestQPNsOfOneWord adds and deletes neighbours concurrently: no bit gets lost.
func TestQPNsOfOneWord(t *testing.T) {
	s := load(t, nil)
	const first = 0x1000
	var all sync.WaitGroup
	for i := range uint32(64) {
		all.Go(func() {
			for range 50 {
				s.AddQPN(first + i)
				s.DelQPN(first + i)
			}
			if i%2 == 0 {
				s.AddQPN(first + i)
			}
		})
	}
	all.Wait()
	for i := range uint32(64) {
		if got := s.HasQPN(first + i); got != (i%2 == 0) {
			t.Errorf("HasQPN(%#x) is %v", first+i, got)
		}
	}
}

func TestAddresses(t *testing.T) {
	s := load(t, nil)
	check(t, s.AddQPN(ourQPN))
	for _, c := range []struct {
		name, address string
		frame         []byte
	}{
		{"IPv4", "10.0.0.1", roce()},
		{"IPv4-mapped", "::ffff:10.0.0.1", roce()},
		{"IPv6", "2001:db8::1", roce6()},
		{"IPv6 with a zone", "fe80::1%eth0", roce6(to("fe80::1"))},
		{"group", "239.1.2.3", roce(to("239.1.2.3"), qpn(0xffffff))},
		{"IPv4-mapped group", "::ffff:239.1.2.3", roce(to("239.1.2.3"), qpn(0xffffff))},
		{"IPv6 group", "ff0e::1:2", roce6(to("ff0e::1:2"), qpn(0xffffff))},
		{"loopback", "127.0.0.1", roce(to("127.0.0.1"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := netip.MustParseAddr(c.address)
			for _, step := range []struct {
				do   func(netip.Addr) error
				want Verdict
			}{
				{s.AddAddress, VerdictDropNoSocket},
				{s.AddAddress, VerdictDropNoSocket},
				{s.DelAddress, VerdictPassAddress},
				{s.DelAddress, VerdictPassAddress},
			} {
				check(t, step.do(a))
				if got := verdictOf(t, s, c.frame, nil); got != step.want {
					t.Errorf("verdict %v, want %v", got, step.want)
				}
			}
		})
	}
}

func TestAddressList(t *testing.T) {
	s := load(t, nil)
	want := []netip.Addr{ours4, ours6, group4}
	for _, a := range want {
		check(t, s.AddAddress(a))
	}
	got, err := s.Addresses()
	check(t, err)
	byCompare := cmpopts.SortSlices(func(a, b netip.Addr) bool { return a.Less(b) })
	if d := cmp.Diff(want, got, byCompare, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Error(d)
	}
}

func TestAddressRange(t *testing.T) {
	s := load(t, nil)
	for _, a := range []netip.Addr{{}, netip.IPv4Unspecified(), netip.IPv6Unspecified(), netip.MustParseAddr("::ffff:0.0.0.0")} {
		wantErr(t, s.AddAddress(a), ErrRange, "add address")
		wantErr(t, s.DelAddress(a), ErrRange, "delete address")
	}
	a := netip.MustParseAddr("10.1.0.0")
	for range MaxAddresses {
		check(t, s.AddAddress(a))
		a = a.Next()
	}
	wantErr(t, s.AddAddress(a), ErrRange, "9216")
}

func TestRegister(t *testing.T) {
	s := load(t, &Options{Queues: 2})
	fd := receiver(t)
	check(t, s.AddAddress(ours4))
	check(t, s.AddQPN(ourQPN))
	check(t, s.Register(1, fd))
	if got := verdictOf(t, s, roce(), nil); got != VerdictDropNoSocket {
		t.Errorf("socket on queue 1 only: verdict %v, want %v", got, VerdictDropNoSocket)
	}
	check(t, s.Register(0, fd))
	check(t, s.Register(0, receiver(t)))
	if got := verdictOf(t, s, roce(), nil); got != VerdictRedirect {
		t.Errorf("registered: verdict %v, want %v", got, VerdictRedirect)
	}
	for range 2 {
		check(t, s.Unregister(0))
	}
	if got := verdictOf(t, s, roce(), nil); got != VerdictDropNoSocket {
		t.Errorf("unregistered: verdict %v, want %v", got, VerdictDropNoSocket)
	}
}

func TestRegisterErrors(t *testing.T) {
	s := load(t, &Options{Queues: 2})
	fd := receiver(t)
	for _, q := range []int{-1, 2, 1 << 32} {
		wantErr(t, s.Register(q, fd), ErrRange, "want 0 to 1", "Options.Queues")
		wantErr(t, s.Unregister(q), ErrRange, "unregister")
	}
	wantErr(t, s.Register(0, 1<<20), unix.EBADF, "not open")
	plain, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	check(t, err)
	defer unix.Close(plain)
	wantErr(t, s.Register(0, plain), unix.EOPNOTSUPP, "no AF_XDP socket")
}

func TestCounters(t *testing.T) {
	s := loadForUs(t)
	for range 3 {
		verdictOf(t, s, roce(), nil)
	}
	verdictOf(t, s, roce(port(53)), nil)
	got, err := s.Counters()
	check(t, err)
	var names []string
	for i, c := range got {
		names = append(names, c.Name)
		want := map[string]uint64{"redirect": 3, "pass_port": 1}[c.Name]
		if c.Value != want {
			t.Errorf("%s is %d, want %d", c.Name, c.Value, want)
		}
		if c.Help != Verdict(i).Help() || c.Help == "" {
			t.Errorf("%s: help %q", c.Name, c.Help)
		}
	}
	if d := cmp.Diff(CounterNames(), names); d != "" {
		t.Error(d)
	}
	slices.Sort(names)
	if n := len(slices.Compact(names)); n != VerdictCount {
		t.Errorf("%d different names for %d verdicts", n, VerdictCount)
	}
}

// TestClosed wants an error, not a fault, from everything on a closed Steer.
func TestClosed(t *testing.T) {
	s := load(t, nil)
	check(t, s.Close())
	check(t, s.Close())
	for name, do := range map[string]func() error{
		"AddQPN":        func() error { return s.AddQPN(1) },
		"DelQPN":        func() error { return s.DelQPN(1) },
		"AddAddress":    func() error { return s.AddAddress(ours4) },
		"DelAddress":    func() error { return s.DelAddress(ours4) },
		"Addresses":     func() error { _, err := s.Addresses(); return err },
		"Register":      func() error { return s.Register(0, 0) },
		"Unregister":    func() error { return s.Unregister(0) },
		"Counters":      func() error { _, err := s.Counters(); return err },
		"SetUnknownQPN": func() error { return s.SetUnknownQPN(ActionPass) },
		"SetNoSocket":   func() error { return s.SetNoSocket(ActionPass) },
		"Attach":        func() error { return s.Attach(1, ModeGeneric) },
		"Detach":        s.Detach,
		"Unpin":         s.Unpin,
	} {
		t.Run(name, func(t *testing.T) { wantErr(t, do(), ErrClosed) })
	}
	if s.HasQPN(1) {
		t.Error("HasQPN on a closed Steer")
	}
}
