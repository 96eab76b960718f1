//go:build !race

package transport_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/ibv"
	"github.com/roce-xdp/roce-xdp/internal/simnet"
	. "github.com/roce-xdp/roce-xdp/internal/transport"
)

// The simulations have one goroutine: the race detector would only make them slow.

var updateGoodput = flag.Bool("update", false, "write docs/goodput.md anew")

const (
	goodputFile    = "../../docs/goodput.md"
	goodputRate    = 10_000_000_000
	goodputDelay   = 50 * time.Microsecond // one way
	goodputSize    = 64 << 10
	goodputCount   = 256
	goodputTimeout = 14 // 67 ms
)

// goodputHead is the file's text before the tables.
const goodputHead = `# Goodput on a lossy network

What the protocol engine makes of a link of 10 Gbit/s with a round trip of 100 us: %d messages of 64 KiB, as many
posted as the send queue holds, with a local ACK timeout of 67 ms (exponent 14). The link is simulated, so the figures
are the same on every machine; ` + "`go test ./internal/transport -run TestGoodput -update`" + ` writes them. They say what
losses cost, not how fast a machine is: see [perf.md](perf.md) for that.

Percentages are of the payload that the link can carry at that path MTU. In brackets: packets sent again, for each
that was lost or, where none was, in all; and the longest time in which no message completed.

`

// goodputRow is a line of a table.
type goodputRow struct {
	op  ibv.WROpcode
	mtu ibv.MTU
}

var goodputRows = []goodputRow{
	{ibv.WRRDMAWrite, ibv.MTU4096}, {ibv.WRSend, ibv.MTU4096}, {ibv.WRRDMARead, ibv.MTU4096},
	{ibv.WRRDMAWrite, ibv.MTU1024}, {ibv.WRSend, ibv.MTU1024}, {ibv.WRRDMARead, ibv.MTU1024},
}

// goodputColumn is what the link does.
type goodputColumn struct {
	name string
	cond simnet.Conditions
}

var (
	goodputLoss = []goodputColumn{
		{"no loss", simnet.Conditions{}},
		{"0.01 %", simnet.Conditions{Drop: 0.0001}},
		{"0.1 %", simnet.Conditions{Drop: 0.001}},
		{"1 %", simnet.Conditions{Drop: 0.01}},
		{"5 %", simnet.Conditions{Drop: 0.05}},
	}
	goodputOther = []goodputColumn{
		{"0.1 % in runs of 8", simnet.Conditions{Burst: simnet.Burst{Begin: 0.000125, End: 0.125, Drop: 1}}},
		{"0.1 % late by up to 20 us", simnet.Conditions{Reorder: 0.001, ReorderBy: 20 * time.Microsecond}},
		{"1 % late by up to 20 us", simnet.Conditions{Reorder: 0.01, ReorderBy: 20 * time.Microsecond}},
		{"1 % twice", simnet.Conditions{Duplicate: 0.01}},
	}
)

// goodput is what one simulation came to.
type goodput struct {
	share    float64       // of the payload that the link can carry
	repeated float64       // packets sent again for each that was lost
	pause    time.Duration // the longest without a completion
	bad      ibv.WCStatus
}

func (g goodput) String() string {
	s := fmt.Sprintf("%.1f %%", 100*g.share)
	if g.bad != ibv.WCSuccess {
		s = g.bad.String()
	}
	ms := float64(g.pause) / float64(time.Millisecond)
	return fmt.Sprintf("%s (%.1f, %.1f ms)", s, g.repeated, ms)
}

// runGoodput runs one flow between two hosts that keep up to keep packets each.
func runGoodput(t *testing.T, r goodputRow, c simnet.Conditions, keep int) goodput {
	c.Rate, c.Delay = goodputRate, goodputDelay
	link := simnet.NewLink(1, c, c)
	s := newNetSim(t, linkNetwork{link}, goodputRate)
	a, b := s.addHost(keep), s.addHost(keep)
	f := s.addFlow(a, b, flowConfig{op: r.op, size: goodputSize, count: goodputCount, mtu: r.mtu, timeout: goodputTimeout, slots: 4})
	s.run(f.finished)
	if f.bad == ibv.WCSuccess && f.finished() && !f.same() {
		t.Errorf("%v %v: memory differs", r.op, r.mtu)
	}
	took := s.now.Sub(simBegin)
	mtu := r.mtu.Bytes()
	full := float64(goodputRate) / 8 * float64(mtu) / float64(simnet.WireLen(a.qps[0].path.Len()+wireBTH+mtu+wireICRC))
	lost := link.Stats(simnet.A).Dropped + link.Stats(simnet.B).Dropped
	again := a.env.Counters[RepeatedPkts]
	if r.op == ibv.WRRDMARead {
		// The packets that count are the responses.
		again = b.env.Counters[SentPkts] - uint64(goodputCount*goodputSize/mtu)
	}
	return goodput{
		share:    float64(f.done*goodputSize) / took.Seconds() / full,
		repeated: float64(again) / float64(max(lost, 1)),
		pause:    max(f.stall, s.now.Sub(f.last)),
		bad:      f.bad,
	}
}

const wireBTH, wireICRC = 12, 4

// goodputTable is a table in Markdown, and its cells.
func goodputTable(t *testing.T, columns []goodputColumn, keep int) (text string, cells map[goodputRow]map[string]goodput) {
	var b strings.Builder
	b.WriteString("| |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	cells = map[goodputRow]map[string]goodput{}
	for _, r := range goodputRows {
		cells[r] = map[string]goodput{}
		fmt.Fprintf(&b, "| %v, MTU %d |", r.op, r.mtu.Bytes())
		for _, c := range columns {
			g := runGoodput(t, r, c.cond, keep)
			cells[r][c.name] = g
			fmt.Fprintf(&b, " %v |", g)
			if g.bad != ibv.WCSuccess {
				t.Errorf("%v %v, %s, keep %d: %v", r.op, r.mtu, c.name, keep, g.bad)
			}
			if limit := 4 * 4096 * time.Nanosecond << goodputTimeout; g.pause > limit {
				t.Errorf("%v %v, %s, keep %d: nothing completed for %v, four timeouts are %v", r.op, r.mtu, c.name, keep, g.pause, limit)
			}
		}
		b.WriteString("\n")
	}
	return b.String(), cells
}

// TestGoodput holds what losses cost: as figures that a change of behaviour
// changes, and as limits.
func TestGoodput(t *testing.T) {
	loss, cells := goodputTable(t, goodputLoss, DefaultWindow)
	for r, row := range cells {
		whole := row["no loss"].share
		if whole < 0.95 {
			t.Errorf("%v %v: %.1f %% without losses", r.op, r.mtu, 100*whole)
		}
		want := 0.60
		if r.mtu == ibv.MTU1024 {
			want = 0.35
		}
		if got := row["1 %"].share / whole; got < want {
			t.Errorf("%v %v: %.1f %% of that with 1 %% lost, want %.0f %%", r.op, r.mtu, 100*got, 100*want)
		}
	}
	strict, _ := goodputTable(t, goodputLoss, 0)
	other, _ := goodputTable(t, goodputOther, DefaultWindow)
	got := fmt.Sprintf(goodputHead, goodputCount) +
		"## Packets lost at random, each way\n\nBoth ends keep what comes after a gap (`KeepBudget` 256, the default).\n\n" + loss +
		"\nNeither end keeps anything (`KeepBudget` -1): go-back-N, as with rdma_rxe and most adapters.\n\n" + strict +
		"\n## Other faults\n\nBoth ends keep what comes after a gap.\n\n" + other
	if *updateGoodput {
		if err := os.WriteFile(goodputFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(goodputFile)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
		t.Errorf("%s differs; if it should, run the test with -update (-file +now):\n%s", goodputFile, d)
	}
}
