package pingpong

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/verbs"
)

// The message of a stock client on Linux's rdma_rxe.
const stock = "0000:000011:c3b63a:00000000000000000000ffff0a4d000c\x00"

func stockAddress() address {
	return address{QPN: 0x11, PSN: 0xc3b63a, GID: verbs.GID(netip.MustParseAddr("::ffff:10.77.0.12").As16())}
}

func TestAddressMessage(t *testing.T) {
	if got := string(stockAddress().message()); got != stock {
		t.Errorf("message is %q, want %q", got, stock)
	}
}

func TestParseAddress(t *testing.T) {
	wide := stockAddress()
	wide.LID = 0xbeef
	tests := []struct {
		name, msg string
		want      address
		ok        bool
	}{
		{"stock", stock, stockAddress(), true},
		{"upper case", strings.ToUpper(stock), stockAddress(), true},
		{"a LID", "beef" + stock[4:], wide, true},
		{"no GID chosen", stock[:19] + strings.Repeat("0", 32) + "\x00", address{QPN: 0x11, PSN: 0xc3b63a}, true},
		{"empty", "", address{}, false},
		{"cut off", stock[:51], address{}, false},
		{"too long", stock + "x", address{}, false},
		{"colon missing", strings.Replace(stock, ":", ";", 1), address{}, false},
		{"last colon missing", stock[:18] + "0" + stock[19:], address{}, false},
		{"no digits in the LID", "zzzz" + stock[4:], address{}, false},
		{"sign in the QPN", stock[:5] + "+00011" + stock[11:], address{}, false},
		{"space in the PSN", stock[:12] + " 3b63a" + stock[18:], address{}, false},
		{"no digits in the GID", stock[:50] + "g\x00", address{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseAddress([]byte(tt.msg))
			if (err == nil) != tt.ok {
				t.Fatalf("parse: %v, want success: %v", err, tt.ok)
			}
			if err != nil && !errors.Is(err, ErrProtocol) {
				t.Errorf("%v is not ErrProtocol", err)
			}
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func FuzzParseAddress(f *testing.F) {
	f.Add([]byte(stock))
	f.Add([]byte(stock[:20]))
	f.Fuzz(func(t *testing.T, msg []byte) {
		a, err := parseAddress(msg)
		if err != nil {
			return
		}
		again, err := parseAddress(a.message())
		if err != nil || again != a {
			t.Fatalf("%q is %+v, which reads back as %+v, %v", msg, a, again, err)
		}
	})
}

func TestBufferContents(t *testing.T) {
	b := make([]byte, 2*page+1)
	fill(b, false)
	if got := firstBadPage(b); got != 0 || b[1] != 0x7b || b[2*page] != 0x7b {
		t.Errorf("plain buffer: bad page %d, want 0 and all bytes 0x7b", got)
	}
	fill(b, true)
	if got := firstBadPage(b); got != -1 || b[1] != 0x7b {
		t.Errorf("buffer of a validating client: bad page %d, want none", got)
	}
	b[2*page] = 1
	if got := firstBadPage(b); got != 2 {
		t.Errorf("third page broken: bad page %d, want 2", got)
	}
}

func TestOptionsCheck(t *testing.T) {
	tests := []struct {
		name    string
		service verbs.QPType
		change  func(*Options)
		want    string // empty: accepted
	}{
		{"defaults", verbs.RC, func(*Options) {}, ""},
		{"defaults of UC", verbs.UC, func(*Options) {}, ""},
		{"defaults of UD", verbs.UD, func(*Options) {}, ""},
		{"another service", verbs.QPType(1), func(*Options) {}, "GSI"},
		{"one byte", verbs.RC, func(o *Options) { o.Size = 1 }, ""},
		{"no byte", verbs.RC, func(o *Options) { o.Size = 0 }, "(-s) is 0"},
		{"largest MTU", verbs.RC, func(o *Options) { o.MTU = 4096 }, ""},
		{"link MTU", verbs.UC, func(o *Options) { o.MTU = 1500 }, "(-m) is 1500"},
		{"no receives", verbs.RC, func(o *Options) { o.RxDepth = 0 }, "(-r)"},
		{"no messages", verbs.UD, func(o *Options) { o.Iters = 0 }, "(-n)"},
		{"service level 8", verbs.RC, func(o *Options) { o.SL = 8 }, "(-l)"},
		{"port", verbs.RC, func(o *Options) { o.Port = 65536 }, "(-p)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := Defaults(tt.service)
			tt.change(&o)
			err := o.check(tt.service)
			if tt.want == "" && err != nil {
				t.Fatal(err)
			}
			if tt.want != "" && (!errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("check = %v, want ErrOptions with %q", err, tt.want)
			}
		})
	}
}
