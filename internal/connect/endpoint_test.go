package connect

import (
	"encoding/json"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/verbs"
)

func TestEndpointCheck(t *testing.T) {
	good := Endpoint{QPN: 0x11, PSN: 0xffffff, GID: netip.MustParseAddr("192.0.2.1")}
	tests := []struct {
		name   string
		change func(*Endpoint)
		ok     bool
	}{
		{"good", func(*Endpoint) {}, true},
		{"IPv6", func(e *Endpoint) { e.GID = netip.MustParseAddr("2001:db8::1") }, true},
		{"first queue pair number", func(e *Endpoint) { e.QPN = 2 }, true},
		{"last queue pair number", func(e *Endpoint) { e.QPN = 0xfffffe }, true},
		{"the general services interface", func(e *Endpoint) { e.QPN = 1 }, false},
		{"multicast queue pair number", func(e *Endpoint) { e.QPN = 0xffffff }, false},
		{"25 bits of queue pair number", func(e *Endpoint) { e.QPN = 1 << 24 }, false},
		{"25 bits of PSN", func(e *Endpoint) { e.PSN = 1 << 24 }, false},
		{"no address", func(e *Endpoint) { e.GID = netip.Addr{} }, false},
		{"zero address", func(e *Endpoint) { e.GID = netip.IPv4Unspecified() }, false},
		{"multicast address", func(e *Endpoint) { e.GID = netip.MustParseAddr("ff02::1") }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := good
			tt.change(&e)
			err := e.Check()
			if (err == nil) != tt.ok {
				t.Errorf("Check = %v, want success: %v", err, tt.ok)
			}
			if err != nil && !errors.Is(err, ErrEndpoint) {
				t.Errorf("%v is not ErrEndpoint", err)
			}
		})
	}
}

// Keys and addresses survive JSON with all their bits.
func TestEndpointJSON(t *testing.T) {
	want := Endpoint{
		QPN: 0xfffffe, PSN: 0xffffff, GID: netip.MustParseAddr("fe80::1"),
		Addr: 0xffff_ffff_ffff_fff1, RKey: 0xffffffff, Len: 1 << 40,
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Endpoint
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestPathDefaults(t *testing.T) {
	want := Path{MTU: verbs.MTU1024, RDAtomic: 16, Timeout: 14, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 12}
	if d := cmp.Diff(want, Path{}.Defaults()); d != "" {
		t.Error(d)
	}
	chosen := Path{MTU: verbs.MTU4096, SGIDIndex: 3, RDAtomic: 1, Timeout: 8, RetryCnt: 1, RNRRetry: 2, MinRNRTimer: 3, Access: verbs.AccessRemoteRead}
	if d := cmp.Diff(chosen, chosen.Defaults()); d != "" {
		t.Error(d)
	}
}
