package resolve

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/roce-xdp/roce-xdp/verbs"
)

func TestPathMTU(t *testing.T) {
	for _, tt := range []struct {
		link int
		want verbs.MTU
	}{
		{0, 0}, {351, 0}, {352, verbs.MTU256}, {607, verbs.MTU256}, {608, verbs.MTU512}, {1119, verbs.MTU512}, {1120, verbs.MTU1024},
		{1500, verbs.MTU1024}, {2143, verbs.MTU1024}, {2144, verbs.MTU2048}, {4191, verbs.MTU2048}, {4192, verbs.MTU4096}, {65535, verbs.MTU4096},
	} {
		if got := PathMTU(tt.link); got != tt.want {
			t.Errorf("link MTU %d: %v, want %v", tt.link, got, tt.want)
		}
	}
}

// routeMessage lays a RTM_NEWROUTE message out.
func routeMessage(table, typ uint8, attrs ...*nl.RtAttr) []byte {
	b := (&nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET, Table: table, Type: typ}}).Serialize()
	for _, a := range attrs {
		b = append(b, a.Serialize()...)
	}
	return b
}

func TestParseRoute(t *testing.T) {
	metrics := nl.NewRtAttr(unix.RTA_METRICS, nil)
	metrics.AddRtAttr(unix.RTAX_MTU, nl.Uint32Attr(1400))
	metrics.AddRtAttr(unix.RTAX_HOPLIMIT, nl.Uint32Attr(7))
	got, err := parseRoute(routeMessage(253, unix.RTN_UNICAST,
		nl.NewRtAttr(unix.RTA_TABLE, nl.Uint32Attr(1000)), nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(3)),
		nl.NewRtAttr(unix.RTA_PREFSRC, []byte{192, 0, 2, 1}),
		nl.NewRtAttr(unix.RTA_VIA, append([]byte{unix.AF_INET6, 0}, netip.MustParseAddr("2001:db8::2").AsSlice()...)), metrics))
	want := answer{
		typ: unix.RTN_UNICAST, table: 1000, oif: 3, src: netip.MustParseAddr("192.0.2.1"), gw: netip.MustParseAddr("2001:db8::2"),
		mtu: 1400, hopLimit: 7,
	}
	if err != nil || got != want {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	if got, err := parseRoute(routeMessage(253, unix.RTN_LOCAL)); err != nil || got != (answer{typ: unix.RTN_LOCAL, table: 253}) {
		t.Errorf("without attributes: %+v, %v", got, err)
	}
	if _, err := parseRoute(make([]byte, unix.SizeofRtMsg-1)); err == nil {
		t.Error("half a message is taken")
	}
}

// What cannot be read is an error, not a panic.
func TestParseRouteAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 80).Draw(t, "message")
		_, _ = parseRoute(b)
		_, _ = parseRoute(append(routeMessage(0, 1), b...))
	})
}

func TestAnswerHop(t *testing.T) {
	dst, gw := netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.9")
	for _, tt := range []struct{ gw, want netip.Addr }{{gw, gw}, {netip.Addr{}, dst}, {netip.IPv4Unspecified(), dst}} {
		if got := (&answer{gw: tt.gw}).hop(dst); got != tt.want {
			t.Errorf("gateway %v: %v", tt.gw, got)
		}
	}
}

func TestReason(t *testing.T) {
	for err, says := range map[error]string{
		unix.ENETDOWN: "is down", unix.ENETUNREACH: "ip route add", unix.EINVAL: "blackhole", unix.EHOSTUNREACH: "unreachable",
		unix.EACCES: "prohibit", errors.New("odd"): "odd (ip route get",
	} {
		if got := reason(err); !strings.Contains(got, says) {
			t.Errorf("%v: %q does not say %q", err, got, says)
		}
	}
}

func TestStateNames(t *testing.T) {
	for s, want := range map[State]string{0: "", unix.NUD_INCOMPLETE: "INCOMPLETE", unix.NUD_STALE: "STALE", unix.NUD_PERMANENT: "PERMANENT", unix.NUD_FAILED: "FAILED"} {
		if got := s.String(); got != want {
			t.Errorf("%#x: %q, want %q", int(s), got, want)
		}
	}
}

func TestRounded(t *testing.T) {
	for _, tt := range []struct{ d, want time.Duration }{
		{2_999_700 * time.Microsecond, 3 * time.Second}, {299_400 * time.Microsecond, 300 * time.Millisecond},
		{9_800 * time.Microsecond, 10 * time.Millisecond}, {0, 0},
	} {
		if got := rounded(tt.d); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.d, got, tt.want)
		}
	}
}
