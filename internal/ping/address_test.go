package ping

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
)

func TestOptionsRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Options)
		says   string
	}{
		{"port 0", func(o *Options) { o.Port = 0 }, "port (-p) is 0: 1 to 65535"},
		{"size too small", func(o *Options) { o.Size = MinSize - 1 }, "size (-S) is 22: 23 to 65535"},
		{"size too large", func(o *Options) { o.Size = MaxSize + 1 }, "size (-S) is 65536"},
		{"negative count", func(o *Options) { o.Count = -1 }, "count (-C) is -1"},
		{"no time", func(o *Options) { o.Timeout = 0 }, "--timeout is 0s"},
		{"multicast", func(o *Options) { o.Address = "224.0.0.1" }, "224.0.0.1 is not that of one host"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Defaults()
			tt.change(&o)
			if o.Address == "" {
				o.Address = "192.0.2.1"
			}
			_, err := Client(t.Context(), o)
			for who, err := range map[string]error{"client": err, "server": Server(t.Context(), o)} {
				if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%s: %v, want %q", who, err, tt.says)
				}
			}
		})
	}
}

func TestClientAddresses(t *testing.T) {
	for _, tt := range []struct{ name, address, source, says string }{
		{"none", "", "", "the server's address (-a) is needed"},
		{"any", "::", "", "not that of one host"},
		{"link-local without an interface", "fe80::1", "", "name one, as fe80::1%eth0"},
		{"source that is no address", "192.0.2.1", "eth0", "source address (-I)"},
	} {
		o := Defaults()
		o.Address, o.Source = tt.address, tt.source
		if _, err := Client(t.Context(), o); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
	}
	o := Defaults()
	o.Address = "fe80::1%lan7"
	if w, err := o.toServer(t.Context()); err != nil || w.ifname != "lan7" || w.remote.String() != "[fe80::1%lan7]:7174" {
		t.Errorf("link-local with a zone: %+v, %v", w, err)
	}
	o.Address = "127.0.0.1"
	if _, err := o.toServer(t.Context()); err == nil || !strings.Contains(err.Error(), "no network interface but loopback has the address 127.0.0.1") {
		t.Errorf("loopback: %v", err)
	}
}

func TestListenAddresses(t *testing.T) {
	for _, tt := range []struct{ address, want string }{
		{"", ":7174"}, {"0.0.0.0", "0.0.0.0:7174"}, {"::0", "[::]:7174"}, {"192.0.2.1", "192.0.2.1:7174"}, {"fe80::1%eth0", "[fe80::1%eth0]:7174"},
	} {
		o := Defaults()
		o.Address, o.Interface = tt.address, "eth0"
		if ifname, got, err := o.listenAddr(t.Context()); err != nil || got != tt.want || ifname != "eth0" {
			t.Errorf("%q: %q on %q, %v", tt.address, got, ifname, err)
		}
	}
}

// TestNoConnection: each failure to connect names its likely cause, in time.
func TestNoConnection(t *testing.T) {
	for _, tt := range []struct {
		name, address string
		want          error
		says          []string
		within        time.Duration // besides what a slow machine takes
	}{
		{"no route", "203.0.113.1", datapath.ErrNoRoute, []string{"no route to the peer"}, 0},
		{"nobody listens", datapathtest.IPv4[1].String(), cm.ErrNoListener, []string{"is the server running"}, 0},
		{"own address", datapathtest.IPv4[0].String(), cm.ErrNoListener, []string{"is the server running", "an address of this host's own"}, 0},
		{"nobody answers", datapathtest.Silent.String(), ErrNoAnswer, []string{"no answer from 192.0.2.99:7174 within 500ms", "firewall drop UDP port 4791"}, 500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := devices(t)
			// The connection manager of B runs, for another port.
			l, err := cm.Listen(b, ":7471", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			began := time.Now()
			res, out, err := runClient(t, a, func(o *Options) {
				o.Address = tt.address
				if tt.within > 0 {
					o.Timeout = tt.within
				}
			})
			if !errors.Is(err, tt.want) || res != nil || out != "" {
				t.Errorf("error %v, want %v; result %+v, %q", err, tt.want, res, out)
			}
			for _, s := range tt.says {
				if err != nil && !strings.Contains(err.Error(), s) {
					t.Errorf("error %q does not say %q", err, s)
				}
			}
			if took := time.Since(began); took < tt.within || took > tt.within+20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}
