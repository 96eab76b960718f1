package show

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/daemon/control"
)

func row(kv ...any) control.Row {
	var r control.Row
	for i := 0; i < len(kv); i += 2 {
		r = append(r, control.Field{Key: kv[i].(string), Value: kv[i+1]})
	}
	return r
}

var (
	links = []control.Row{
		row("ifindex", 0, "ifname", "eth0", "port", 1, "state", "ACTIVE", "physical_state", "LINK_UP", "netdev", "eth0", "netdev_index", 2,
			"link_mtu", 1500, "gids", []string{"0=fe80::1", "1=192.0.2.1"}),
		row("ifindex", 1, "ifname", "eth1", "port", 1, "state", "DOWN", "physical_state", "DISABLED"),
	}
	qps = []control.Row{
		row("ifindex", 0, "ifname", "eth0", "lqpn", 17, "rqpn", 18, "type", "RC", "state", "RTS", "pid", 7, "comm", "a b"),
		row("ifindex", 0, "ifname", "eth0", "port", 1, "lqpn", 1, "type", "GSI", "state", "RTS", "pid", 7),
		row("ifindex", 1, "ifname", "eth1", "lqpn", 40, "type", "UD", "state", "INIT", "pid", 8),
	}
)

func TestPrint(t *testing.T) {
	for _, tt := range []struct {
		name  string
		print func(f Format, w *strings.Builder) error
		f     Format
		want  string
	}{
		{"link show", func(f Format, w *strings.Builder) error { return f.Links(w, links) }, Format{},
			"link eth0/1 state ACTIVE physical_state LINK_UP netdev eth0\nlink eth1/1 state DOWN physical_state DISABLED\n"},
		{"link show -d", func(f Format, w *strings.Builder) error { return f.Links(w, links[:1]) }, Format{Details: true},
			"link eth0/1 state ACTIVE physical_state LINK_UP netdev eth0 netdev_index 2\n    link_mtu 1500 gids 0=fe80::1,1=192.0.2.1\n"},
		{"link show -j", func(f Format, w *strings.Builder) error { return f.Links(w, links[:1]) }, Format{JSON: true},
			`[{"ifindex":0,"ifname":"eth0","port":1,"state":"ACTIVE","physical_state":"LINK_UP","netdev":"eth0","netdev_index":2}]` + "\n"},
		{"link show -j -d", func(f Format, w *strings.Builder) error { return f.Links(w, links[1:]) }, Format{JSON: true, Details: true},
			`[{"ifindex":1,"ifname":"eth1","port":1,"state":"DOWN","physical_state":"DISABLED"}]` + "\n"},
		{"resource show", func(f Format, w *strings.Builder) error {
			return f.Summary(w, []control.Row{row("ifindex", 3, "ifname", "eth0", "pd", 1, "cq", 2)})
		}, Format{}, "3: eth0: pd 1 cq 2\n"},
		{"resource show qp", func(f Format, w *strings.Builder) error { return f.Resources(w, "qp", qps[:2]) }, Format{},
			"link eth0/- lqpn 17 rqpn 18 type RC state RTS pid 7 comm a b\nlink eth0/1 lqpn 1 type GSI state RTS pid 7\n"},
		{"resource show cq", func(f Format, w *strings.Builder) error {
			return f.Resources(w, "cq", []control.Row{row("ifindex", 0, "ifname", "eth0", "cqn", 5)})
		}, Format{}, "dev eth0 cqn 5\n"},
		{"statistic show -j -p", func(f Format, w *strings.Builder) error {
			return f.Statistics(w, []control.Row{row("ifindex", 0, "ifname", "eth0", "port", 1, "sent_pkts", 3)})
		}, Format{JSON: true, Pretty: true},
			"[\n    {\n        \"ifindex\": 0,\n        \"ifname\": \"eth0\",\n        \"port\": 1,\n        \"sent_pkts\": 3\n    }\n]\n"},
		{"statistic show", func(f Format, w *strings.Builder) error {
			return f.Statistics(w, []control.Row{row("ifindex", 0, "ifname", "eth0", "port", 1, "sent_pkts", 3)})
		}, Format{}, "link eth0/1 sent_pkts 3\n"},
		{"nothing -j", func(f Format, w *strings.Builder) error { return f.Resources(w, "qp", []control.Row{}) }, Format{JSON: true}, "[]\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var w strings.Builder
			if err := tt.print(tt.f, &w); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, w.String()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestResourceGrammar(t *testing.T) {
	all := []string{"eth0", "eth1"}
	for _, tt := range []struct {
		words string
		kind  string
		want  []int // indices into qps
	}{
		{"", "", []int{0, 1, 2}},
		{"eth1", "", []int{2}},
		{"qp", "qp", []int{0, 1, 2}},
		{"qp link", "qp", []int{0, 1, 2}},
		{"qp link eth0/1", "qp", []int{0, 1}},
		{"qp link eth0/-", "qp", []int{0, 1}},
		{"cq dev eth1", "cq", []int{2}},
		{"qp link eth0 type RC", "qp", []int{0}},
		{"qp type rc,ud", "qp", []int{0, 2}},
		{"qp lqpn 2-40", "qp", []int{0, 2}},
		{"qp lqpn 1,0x11", "qp", []int{1}},
		{"qp lqpn 0x11-0x11", "qp", []int{0}},
		{"qp pid 7 state RTS lqpn 1", "qp", []int{1}},
		{"qp rqpn 18", "qp", []int{0}},
		{"qp colour red", "qp", []int{}},
		{"qp type 1-2", "qp", []int{}},
	} {
		t.Run(tt.words, func(t *testing.T) {
			kind, s, err := ParseResource(strings.Fields(tt.words))
			if err != nil || kind != tt.kind {
				t.Fatalf("%q, %v", kind, err)
			}
			got, err := s.Apply(qps, all)
			if err != nil {
				t.Fatal(err)
			}
			want := []control.Row{}
			for _, i := range tt.want {
				want = append(want, qps[i])
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
	for _, words := range []string{"qps eth0", "qp lqpn", "eth0/2", "/1", "qp link eth0/x", "qp type RC pid"} {
		if _, _, err := ParseResource(strings.Fields(words)); !errors.Is(err, ErrGrammar) {
			t.Errorf("%q: %v", words, err)
		}
	}
}

func TestStatisticGrammar(t *testing.T) {
	for words, want := range map[string]string{"": "", "link": "", "link eth0/1": "eth0", "eth1": "eth1"} {
		if s, err := ParseStatistic(strings.Fields(words)); err != nil || s.Device != want {
			t.Errorf("%q: %+v, %v", words, s, err)
		}
	}
	for _, words := range []string{"link eth0 eth1", "eth0/7"} {
		if _, err := ParseStatistic(strings.Fields(words)); !errors.Is(err, ErrGrammar) {
			t.Errorf("%q: %v", words, err)
		}
	}
}

func TestUnknownDevice(t *testing.T) {
	s := Selection{Device: "eth7"}
	if _, err := s.Apply(qps, []string{"eth0", "eth1"}); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "it has eth0, eth1") {
		t.Error(err)
	}
	if _, err := s.Apply(nil, nil); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "it has none") {
		t.Error(err)
	}
	// What is no device may be a kind that is spelled otherwise.
	_, s, err := ParseResource([]string{"qps"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(nil, []string{"eth0"}); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "does not serve qps, it has eth0; the kinds of resources are pd, cq, qp, ") {
		t.Error(err)
	}
}
