package perf

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func mustTest(name string) Test {
	for _, t := range Tests() {
		if t.String() == name {
			return t
		}
	}
	panic("no test " + name)
}

func TestTestsHaveNames(t *testing.T) {
	var got []string
	for _, test := range Tests() {
		got = append(got, test.String())
	}
	want := []string{"send-bw", "write-bw", "read-bw", "atomic-bw", "send-lat", "write-lat", "read-lat", "atomic-lat"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestCompleteDefaults(t *testing.T) {
	base := Params{QPs: 1, RxDepth: 512, PostList: 1, CQMod: 100, Outstanding: 16, TxDepth: 128, Iters: 1000, Sizes: []int{65536}}
	tests := []struct {
		name   string
		change func(*Params)
	}{
		{"send-bw", func(*Params) {}},
		{"write-bw", func(p *Params) { p.Iters = 5000 }},
		{"read-bw", func(*Params) {}},
		{"atomic-bw", func(p *Params) { p.Sizes = []int{8} }},
		{"send-lat", func(p *Params) { p.Sizes, p.TxDepth, p.CQMod = []int{2}, 1, 1 }},
		{"atomic-lat", func(p *Params) { p.Sizes, p.TxDepth, p.CQMod = []int{8}, 1, 1 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := base
			want.Test = mustTest(tt.name)
			tt.change(&want)
			got, err := Params{Test: want.Test}.Complete()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			again, err := got.Complete()
			if d := cmp.Diff(got, again); d != "" || err != nil {
				t.Errorf("completing twice: %v %s", err, d)
			}
		})
	}
}

func TestCompleteAllSizes(t *testing.T) {
	p, err := Params{Test: mustTest("write-bw"), AllSizes: true}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Sizes) != 23 || p.Sizes[0] != 2 || p.Sizes[22] != 8<<20 {
		t.Errorf("sizes %v, want 2 to 8 MiB in powers of two", p.Sizes)
	}
}

// Whatever the depth, a full window contains a request that completes.
func TestCompleteModeration(t *testing.T) {
	for _, tt := range []struct{ depth, list, mod, want int }{
		{128, 1, 0, 100}, {10, 1, 100, 10}, {16, 4, 16, 13}, {8, 8, 8, 1}, {64, 1, 5, 5},
	} {
		p, err := Params{Test: mustTest("write-bw"), TxDepth: tt.depth, PostList: tt.list, CQMod: tt.mod}.Complete()
		if err != nil || p.CQMod != tt.want {
			t.Errorf("depth %d, list %d, moderation %d becomes %d, %v; want %d", tt.depth, tt.list, tt.mod, p.CQMod, err, tt.want)
		}
	}
}

func TestCompleteRefuses(t *testing.T) {
	tests := []struct {
		name, test string
		p          Params
		want       string
	}{
		{"unknown test", "", Params{Test: Test{Op: "fly"}}, "fly-bw"},
		{"few iterations", "write-bw", Params{Iters: 4}, "(-n) is 4: 5 to"},
		{"no queue pair", "write-bw", Params{QPs: -1}, "(-q)"},
		{"too many queue pairs", "write-bw", Params{QPs: maxQPs + 1}, "(-q)"},
		{"tx-depth", "write-bw", Params{TxDepth: maxDepth + 1}, "(-t)"},
		{"rx-depth", "send-bw", Params{RxDepth: -5}, "(-r)"},
		{"post list longer than the queue", "write-bw", Params{TxDepth: 4, PostList: 5}, "(-l) is 5: 1 to 4"},
		{"moderation", "write-bw", Params{CQMod: -1}, "(-Q)"},
		{"inline", "write-bw", Params{Inline: 513}, "(-I) is 513: 0 to 512"},
		{"outstanding", "read-bw", Params{Outstanding: 129}, "(-o) is 129: 1 to 128"},
		{"service level", "read-bw", Params{SL: 8}, "(-S)"},
		{"timeout", "read-bw", Params{Timeout: 32}, "(-u)"},
		{"timeout of the connection manager", "read-bw", Params{Timeout: 14, RDMACM: true}, "leave out -u"},
		{"duration", "read-bw", Params{Duration: -time.Second}, "(-D)"},
		{"MTU", "read-bw", Params{MTU: 1500}, "256, 512, 1024, 2048 and 4096"},
		{"bidirectional latency", "write-lat", Params{Bidirectional: true}, "-b"},
		{"queue pairs of a latency test", "write-lat", Params{QPs: 2}, "-q is 2"},
		{"empty WRITE to poll on", "write-lat", Params{Sizes: []int{0}}, "1 to"},
		{"negative size", "send-lat", Params{Sizes: []int{-1}}, "(-s) is -1"},
		{"huge message", "send-bw", Params{Sizes: []int{maxMessage + 1}}, "(-s)"},
		{"atomic of 4 bytes", "atomic-bw", Params{Sizes: []int{4}}, "8 bytes"},
		{"many sizes", "send-bw", Params{Sizes: make([]int, 65)}, "at most 64"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.test != "" {
				tt.p.Test = mustTest(tt.test)
			}
			_, err := tt.p.Complete()
			if !errors.Is(err, ErrParams) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Complete = %v, want ErrParams with %q", err, tt.want)
			}
		})
	}
}

func TestCompleteAcceptsEdges(t *testing.T) {
	for _, p := range []Params{
		{Test: mustTest("send-lat"), Sizes: []int{0}},
		{Test: mustTest("write-lat"), Sizes: []int{1}},
		{Test: mustTest("write-bw"), Sizes: []int{0, maxMessage}, QPs: maxQPs, TxDepth: 1, Iters: minIters},
		{Test: mustTest("send-bw"), MTU: 256, Inline: 512, SL: 7, Timeout: 31, Duration: maxTime},
	} {
		if _, err := p.Complete(); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
