package bpf

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// What the loaded programs of the tests know.
var (
	ours4     = netip.MustParseAddr("10.0.0.1")
	ours6     = netip.MustParseAddr("2001:db8::1")
	oursLocal = netip.MustParseAddr("fe80::1")
	group4    = netip.MustParseAddr("239.1.2.3")
	group6    = netip.MustParseAddr("ff0e::1:2")
)

const ourQPN = 0x11

// registeredQPNs are at the ends of words and of the range.
var registeredQPNs = []uint32{1, ourQPN, 63, 64, 0x7fffff, 0x800000, 0xfffffe}

// require ends the test when err says that a privilege is missing: as a skip, or
// as a failure where the environment promises that the privilege is there.
func require(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case !errors.Is(err, ErrPrivilege) && !errors.Is(err, unix.EPERM):
		t.Fatal(err)
	case strings.Contains(os.Getenv("ROCE_XDP_REQUIRE"), "xdp"):
		t.Fatalf("ROCE_XDP_REQUIRE wants XDP tests to run: %v", err)
	default:
		t.Skipf("needs CAP_BPF and CAP_NET_ADMIN (CAP_SYS_ADMIN for namespaces): %v", err)
	}
}

// load gives a program that nothing is registered with.
func load(t testing.TB, o *Options) *Steer {
	t.Helper()
	s, err := Load(o)
	require(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// loadForUs gives a program with addresses, queue pairs and a socket on queue 0.
func loadForUs(t testing.TB) *Steer {
	t.Helper()
	s := load(t, nil)
	for _, a := range []netip.Addr{ours4, ours6, oursLocal, group4, group6} {
		check(t, s.AddAddress(a))
	}
	for _, q := range registeredQPNs {
		check(t, s.AddQPN(q))
	}
	check(t, s.Register(0, receiver(t)))
	return s
}

// receiver is a socket with a receive ring: all that the socket map asks for.
func receiver(t testing.TB) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	require(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	check(t, unix.SetsockoptInt(fd, unix.SOL_XDP, unix.XDP_RX_RING, 64))
	return fd
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantErr wants an error that wraps cause and says all of words.
func wantErr(t testing.TB, err, cause error, words ...string) {
	t.Helper()
	if !errors.Is(err, cause) {
		t.Fatalf("error is %v, want one that wraps %q", err, cause)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error does not say %q: %v", w, err)
		}
	}
}

// counts reads the counters as an array over verdicts.
func counts(t testing.TB, s *Steer) [VerdictCount]uint64 {
	t.Helper()
	list, err := s.Counters()
	check(t, err)
	var c [VerdictCount]uint64
	for i := range list {
		c[i] = list[i].Value
	}
	return c
}

// xdpContext is struct xdp_md as BPF_PROG_TEST_RUN takes it.
type xdpContext struct {
	Data, DataEnd, DataMeta             uint32
	IngressIfindex, RxQueue, EgressIndx uint32
}

// verdictOf runs the program on one frame. Exactly one counter must move, by one,
// and the program's answer must be what the name of that counter says.
func verdictOf(t testing.TB, s *Steer, frame []byte, context *xdpContext) Verdict {
	t.Helper()
	before := counts(t, s)
	run := ebpf.RunOptions{Data: frame, Repeat: 1}
	if context != nil {
		run.Context = *context
	}
	answer, err := s.objects.Steer.Run(&run)
	check(t, err)
	after := counts(t, s)
	moved := Verdict(VerdictCount)
	for v := range Verdict(VerdictCount) {
		switch after[v] - before[v] {
		case 0:
		case 1:
			if moved != VerdictCount {
				t.Fatalf("counters %v and %v both moved", moved, v)
			}
			moved = v
		default:
			t.Fatalf("counter %v moved by %d", v, after[v]-before[v])
		}
	}
	if moved == VerdictCount {
		t.Fatal("no counter moved")
	}
	if want := answerOf(moved); answer != want {
		t.Fatalf("verdict %v came with XDP action %d, want %d", moved, answer, want)
	}
	return moved
}

// answerOf is the XDP action that a verdict's name promises.
func answerOf(v Verdict) uint32 {
	switch word, _, _ := strings.Cut(v.String(), "_"); word {
	case "pass":
		return xdpPass
	case "drop":
		return xdpDrop
	case "redirect":
		return xdpRedirect
	default:
		return 0
	}
}

// splitFrame tries whether the kernel lets the linear part end at n.
func splitFrame(s *Steer, frame []byte, n uint32) error {
	_, err := s.objects.Steer.Run(&ebpf.RunOptions{Data: frame, Repeat: 1, Context: xdpContext{DataEnd: n}})
	return err
}
