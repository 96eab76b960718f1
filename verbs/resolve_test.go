package verbs_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/verbs"
)

func TestResolve(t *testing.T) {
	f, ctx := newFake(t)
	dst := netip.MustParseAddr("192.0.2.2")
	if got, err := ctx.Resolve(t.Context(), &verbs.ResolveRequest{Dst: dst}); err != nil || got.Dst != dst || got.Gateway() {
		t.Errorf("%+v, %v", got, err)
	}
	f.resolveErr = verbs.ErrNoRoute
	_, err := ctx.Resolve(t.Context(), &verbs.ResolveRequest{Dst: dst})
	if !errors.Is(err, verbs.ErrNoRoute) || !strings.HasPrefix(err.Error(), "resolve 192.0.2.2 on fake0: ") {
		t.Errorf("got %v", err)
	}
	for _, req := range []*verbs.ResolveRequest{nil, {}} {
		if _, err := ctx.Resolve(t.Context(), req); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("no address: %v", err)
		}
	}
	if err := ctx.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ctx.Resolve(t.Context(), &verbs.ResolveRequest{Dst: dst}); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func TestResolutionGateway(t *testing.T) {
	dst, gw := netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("198.51.100.1")
	for _, tt := range []struct {
		hop  netip.Addr
		want bool
	}{{dst, false}, {gw, true}, {netip.Addr{}, false}} {
		if r := (verbs.Resolution{Dst: dst, NextHop: tt.hop}); r.Gateway() != tt.want {
			t.Errorf("next hop %v: %v", tt.hop, r.Gateway())
		}
	}
}
