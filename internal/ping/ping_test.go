package ping

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/cm"
	"github.com/roce-xdp/roce-xdp/datapath/datapathtest"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// TestPing runs client and server with the options that change what they do.
func TestPing(t *testing.T) {
	for _, tt := range []struct {
		name           string
		server, client func(*Options)
		out            string // regular expressions
		served         string
	}{
		{"defaults", nil, nil, `^192\.0\.2\.2:7174: 10 rounds of 64 bytes, 0 lost, rtt min/avg/max [\d.]+/[\d.]+/[\d.]+ us\n$`, `^192\.0\.2\.1:\d+: 10 rounds of 64 bytes, 0 lost\n$`},
		{"IPv6", nil, func(o *Options) { o.Address = datapathtest.IPv6[1].String() }, `^\[2001:db8::2\]:7174: 10 rounds`, `^\[2001:db8::1\]:\d+: 10 rounds`},
		{"other port and own address", func(o *Options) { o.Port, o.Address = 9, "192.0.2.2" }, func(o *Options) { o.Port, o.Source = 9, "192.0.2.1" }, `^192\.0\.2\.2:9: 10`, `: 10`},
		{"smallest", nil, func(o *Options) { o.Size = MinSize }, `10 rounds of 23 bytes`, `10 rounds of 23 bytes`},
		{"largest, whatever the server is told", func(o *Options) { o.Size = MinSize }, func(o *Options) { o.Size = MaxSize }, `10 rounds of 65535 bytes`, `10 rounds of 65535 bytes`},
		{"data printed", func(o *Options) { o.Verbose = true }, func(o *Options) { o.Verbose, o.Count, o.Size = true, 2, 23 },
			`^ping data: rdma-ping-0: ABCDEFGHI\nping data: rdma-ping-1: BCDEFGHIJ\n192`, `^server ping data: rdma-ping-0: ABCDEFGHI\nserver ping data: rdma-ping-1: BCDEFGHIJ\n192`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := devices(t)
			s := serve(t, b, tt.server)
			_, out, err := runClient(t, a, tt.client)
			if err != nil {
				t.Fatal(err)
			}
			if err := <-s.err; err != nil {
				t.Fatalf("server: %v", err)
			}
			for got, want := range map[string]string{out: tt.out, s.out.String(): tt.served} {
				if !regexp.MustCompile(want).MatchString(got) {
					t.Errorf("output %q does not match %q", got, want)
				}
			}
		})
	}
}

// TestJSON: an object of each end, nothing else.
func TestJSON(t *testing.T) {
	a, b := devices(t)
	s := serve(t, b, func(o *Options) { o.JSON, o.Verbose = true, true })
	_, out, err := runClient(t, a, func(o *Options) { o.JSON, o.Verbose = true, true })
	if err := errors.Join(err, <-s.err); err != nil {
		t.Fatal(err)
	}
	for role, text := range map[string]string{"client": out, "server": s.out.String()} {
		var got struct {
			Role               string
			Size, Rounds, Lost int
			RTT                *struct{ Min, Avg, Max float64 } `json:"rtt_usec"`
			Error              *string
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if got.Role != role || got.Size != 64 || got.Rounds != 10 || got.Lost != 0 || got.Error != nil {
			t.Errorf("%s says %s", role, text)
		}
		if r := got.RTT; (r != nil) != (role == "client") || r != nil && (r.Min <= 0 || r.Avg < r.Min || r.Max < r.Avg) {
			t.Errorf("%s has round trips %+v", role, r)
		}
	}
}

// TestPersistent serves clients one after the other and at the same time, until the
// server is told to end, which is no failure.
func TestPersistent(t *testing.T) {
	a, b := devices(t)
	s := serve(t, b, func(o *Options) { o.Persistent = true })
	const n = 8
	errs := make(chan error, n)
	for range n {
		go func() { errs <- connectAndPing(a, 5) }()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if _, _, err := runClient(t, a, nil); err != nil {
		t.Error(err)
	}
	s.end()
	if err := <-s.err; err != nil {
		t.Errorf("server: %v", err)
	}
	out := s.out.String()
	if strings.Count(out, ": 5 rounds of 64 bytes, 0 lost\n") != n || strings.Count(out, ": 10 rounds") != 1 {
		t.Errorf("server says:\n%s", out)
	}
}

// connectAndPing is a client on a device that others use too.
func connectAndPing(dev *verbs.Context, rounds int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := &client{Options: on(dev, &output{})}
	c.dev, c.Address, c.Count, c.Validate = dev, datapathtest.IPv4[1].String(), rounds, true
	w, err := c.toServer(ctx)
	if err != nil {
		return err
	}
	if err := c.connect(ctx, w); err != nil {
		return err
	}
	return errors.Join(c.rounds(ctx, &Result{}), c.hangUp(), c.free())
}

// TestInterrupted: the end of the context ends both ends without a failure, and the count
// is right.
func TestInterrupted(t *testing.T) {
	for _, who := range []string{"client", "server"} {
		t.Run(who, func(t *testing.T) {
			a, b := devices(t)
			s := serve(t, b, nil)
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			var out output
			o := on(a, &out)
			o.Address, o.Verbose = datapathtest.IPv4[1].String(), true
			type outcome struct {
				res *Result
				err error
			}
			got := make(chan outcome, 1)
			go func() {
				res, err := Client(ctx, o)
				got <- outcome{res, err}
			}()
			for strings.Count(out.String(), "ping data") < 3 {
				time.Sleep(time.Millisecond)
			}
			if who == "client" {
				cancel()
			} else {
				s.end()
			}
			c, served := <-got, <-s.err
			if served != nil && who == "server" {
				t.Errorf("server: %v", served)
			}
			if c.res == nil || c.res.Rounds < 3 {
				t.Fatalf("result %+v, %v", c.res, c.err)
			}
			if who == "client" && (c.err != nil || c.res.Lost != 0) {
				t.Errorf("client: %v, %d lost", c.err, c.res.Lost)
			}
			if who == "server" && !errors.Is(c.err, cm.ErrDisconnected) {
				t.Errorf("client: %v", c.err)
			}
			if !strings.Contains(out.String(), " lost, rtt min") {
				t.Errorf("no summary: %s", out.String())
			}
		})
	}
}

// TestServerAloneInterrupted: a server that has had no client says that it was ended,
// unless it is there for any number of them.
func TestServerAloneInterrupted(t *testing.T) {
	for _, persistent := range []bool{false, true} {
		_, b := devices(t)
		s := serve(t, b, func(o *Options) { o.Persistent = persistent })
		s.end()
		if err := <-s.err; errors.Is(err, context.Canceled) == persistent || persistent && err != nil {
			t.Errorf("persistent %v: %v", persistent, err)
		}
	}
}
