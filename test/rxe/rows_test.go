package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/psn"
	"github.com/roce-xdp/roce-xdp/internal/wire"
	"github.com/roce-xdp/roce-xdp/test/netns"
)

// The matrix has each row once, and each operation in all its variants.
func TestRows(t *testing.T) {
	seen := map[string]bool{}
	kinds := map[string]int{}
	for _, r := range rows() {
		if seen[r.name] {
			t.Errorf("row %s is there twice", r.name)
		}
		seen[r.name] = true
		if r.run == nil || r.limit <= 0 || !strings.HasPrefix(r.name, r.group+"/") {
			t.Errorf("row %s of group %q cannot run", r.name, r.group)
		}
		kinds[strings.Join(strings.SplitN(r.name, "/", 3)[:2], "/")]++
	}
	for _, op := range operations {
		if n := kinds["ops/"+op.name]; n != 2*len(families)*len(mtus) {
			t.Errorf("operation %s has %d rows, want both roles, families and MTUs", op.name, n)
		}
	}
	for kind := range kinds {
		if op, ok := strings.CutPrefix(kind, "ops/"); ok && kinds["impaired/"+op] != 2*len(families)*len(mtus) {
			t.Errorf("%s has %d rows over a bad link, want both roles, families and MTUs", op, kinds["impaired/"+op])
		}
	}
	for _, op := range operations {
		if n := kinds["vlan/"+op.name]; n != 2*len(families) {
			t.Errorf("%s has %d rows over a VLAN, want both roles and families", op.name, n)
		}
	}
	if n := kinds["ops/SEND_WITH_INV"]; n != 2*len(families)*len(mtus) {
		t.Errorf("SEND_WITH_INV has %d rows", n)
	}
	for _, op := range large {
		if n := kinds["large/"+op.name]; n != 2*len(families)*len(mtus) {
			t.Errorf("%s of %d bytes has %d rows, want both roles, families and MTUs", op.name, largeSize, n)
		}
	}
	for _, f := range faults {
		if n := kinds["errors/"+f.name]; n != 2*len(families) {
			t.Errorf("error %s has %d rows, want both roles and families", f.name, n)
		}
	}
	for _, l := range losses {
		if n := kinds["loss/"+l.name]; n != 2*len(families) {
			t.Errorf("loss %s has %d rows, want both roles and families", l.name, n)
		}
	}
	for _, role := range []string{"client", "server"} {
		if n := kinds["rping/"+role]; n != 5*len(families) {
			t.Errorf("rping: %d rows as %s", n, role)
		}
	}
	for _, kill := range []string{"RPING_CLIENT", "RPING_SERVER", "OUR_CLIENT", "OUR_SERVER"} {
		if n := kinds["rping/KILL_"+kill]; n != len(families) {
			t.Errorf("rping: %d rows in which %s is killed", n, kill)
		}
	}
	for _, e := range encounters {
		if n := kinds["cm/"+e.name]; n != 2*len(families) {
			t.Errorf("connection manager: %s has %d rows, want both roles and families", e.name, n)
		}
	}
	for kind, want := range map[string]int{"": 18, "uc-": 8, "ud-": 8, "srq-": 8} {
		if c, s := kinds["pingpong/"+kind+"client"], kinds["pingpong/"+kind+"server"]; c != want || s != want {
			t.Errorf("ping-pong: %d rows as %sclient and %d as server, want %d", c, kind, s, want)
		}
	}
}

// Source, target and word do not overlap at any size, and loss rows fit.
func TestAreas(t *testing.T) {
	if source+maxSize > word || word%8 != 0 || word+8 > target-guard || target+maxSize+guard > regionLen {
		t.Errorf("source %d, word %d, target %d overlap or leave the region of %d", source, word, target, regionLen)
	}
	if largeArea-guard < regionLen || largeArea+largeSize+guard > largeRegion {
		t.Errorf("a large message at %d leaves its piece, %d to %d", largeArea, regionLen, largeRegion)
	}
	tr := &trial{params: params{mtu: 4096}}
	if end := tr.spread(source, lossCount); end > word {
		t.Errorf("a burst ends at %d, behind the source area", end)
	}
	if tr.spread(source, 1)-source <= tr.lossLen() {
		t.Error("requests of a burst touch")
	}
}

func TestDataDiffersEverywhere(t *testing.T) {
	a := data("a", 1<<16)
	if !bytes.Equal(a[:1000], data("a", 1000)) {
		t.Error("shorter data is no prefix")
	}
	seen := map[string]int{}
	for i := 0; i+64 <= len(a); i += 64 {
		if j, ok := seen[string(a[i:i+64])]; ok {
			t.Fatalf("64 bytes at %d are those at %d", i, j)
		}
		seen[string(a[i:i+64])] = i
	}
	if bytes.Equal(a[:64], data("b", 64)) {
		t.Error("seeds make no difference")
	}
}

// Packet numbers of a burst go over the end of the number space.
func TestPacketsOfABurst(t *testing.T) {
	want := psn.PSN(requesterPSN)
	wrapped := false
	for i := range lossCount {
		for j := range lossPackets {
			if got := nth(i, j); got != want {
				t.Errorf("packet %d of request %d has PSN %#x, want %#x", j, i, got, want)
			}
			wrapped = wrapped || want == 0
			want = want.Next()
		}
	}
	if !wrapped {
		t.Error("no burst wraps")
	}
	tr := &trial{params: params{mtu: 1024}}
	if n := tr.lossLen(); n <= 2*1024 || n > lossPackets*1024 {
		t.Errorf("a request of %d bytes is not %d packets", n, lossPackets)
	}
}

// nft understands the rules and counts nothing yet.
func TestRules(t *testing.T) {
	ns := netns.ForTest(t)
	nft, err := exec.LookPath("nft")
	if err != nil {
		netns.Missing(t, "nft", "nftables is not installed")
	}
	for name, rule := range map[string]string{
		"once":    match{op: wire.ReadRespMid, psn: 0xffffff}.rule(),
		"forever": match{op: wire.SendOnly, psn: 0, forever: true}.rule(),
		"random":  random(40),
		"tagged":  tagCount,
	} {
		cmd := exec.Command(nft, "--check", "-f", "-")
		cmd.Stdin = strings.NewReader(rule)
		var out []byte
		if err := ns.Do(func() (err error) { out, err = cmd.CombinedOutput(); return err }); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	if got := (match{op: 0x0e, psn: 0x1004}).rule(); !strings.Contains(got, "@th,64,8 0xe @th,136,24 0x1004 limit rate 1/hour burst 1 packets counter drop") {
		t.Errorf("rule is %s", got)
	}
}

func TestReport(t *testing.T) {
	var out strings.Builder
	r := &report{out: &out, kernel: "6.12"}
	r.row("ops/SEND/requester/IPv4/mtu1024", time.Second, nil)
	r.row("ops/SEND/responder/IPv4/mtu1024", time.Second, errors.New("lost"))
	r.row("capture/ops", 1500*time.Millisecond, nil)
	file := filepath.Join(t.TempDir(), "table.md")
	if err := r.finish(file); err != nil {
		t.Fatal(err)
	}
	want := "PASS ops/SEND/requester/IPv4/mtu1024 (1.0 s)\nFAIL ops/SEND/responder/IPv4/mtu1024 (1.0 s): lost\n" +
		"PASS capture/ops (1.5 s)\n# 3 rows, 1 failed, against Linux 6.12\n"
	if d := cmp.Diff(want, out.String()); d != "" || r.failed != 1 {
		t.Errorf("%d failed: %s", r.failed, d)
	}
	table, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff("| group | row | passed |\n| --- | --- | --- |\n| ops | SEND | 1 of 2 |\n| capture | ops | 1 of 1 |\n", string(table)); d != "" {
		t.Error(d)
	}
}

// The judge takes the packets of rdma_rxe itself, and not one with a wrong bit.
func TestJudge(t *testing.T) {
	if _, err := exec.LookPath("tshark"); err != nil {
		netns.Missing(t, "tshark", "tshark is not installed")
	}
	good, err := os.ReadFile("../../internal/wire/testdata/vectors/rc-mixed.pcap")
	if err != nil {
		t.Fatal(err)
	}
	const sender = 24 + 16 + 6 // of the first frame
	src := net.HardwareAddr(good[sender : sender+6])
	judge := func(text []byte, ours net.HardwareAddr) (int, error) {
		c := &capture{file: filepath.Join(t.TempDir(), "c.pcap"), ours: ours}
		if err := os.WriteFile(c.file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		n, err := c.judgeICRC()
		return n, errors.Join(err, c.judgeFields(context.Background()))
	}
	if n, err := judge(good, src); err != nil || n == 0 {
		t.Errorf("%d good packets: %v", n, err)
	}
	bad := bytes.Clone(good)
	bad[24+16+14+20+8+12] ^= 1 // first byte of the payload
	if _, err := judge(bad, src); err == nil {
		t.Error("a changed byte is not noticed")
	}
	if n, err := judge(bad, net.HardwareAddr{2, 0, 0, 0, 0, 1}); n != 0 || err != nil {
		t.Errorf("packets of others: %d, %v", n, err)
	}
}

// -smoke has a row of each group, and all that it names.
func TestSmoke(t *testing.T) {
	groups := map[string]bool{}
	for _, r := range rows() {
		groups[r.group] = false
	}
	chosen := smokeRows(rows())
	if len(chosen) != len(smoke) {
		t.Errorf("%d rows of %d: a name is wrong, or there twice", len(chosen), len(smoke))
	}
	for _, r := range chosen {
		if r.group != "smoke" {
			t.Errorf("%s is in group %s", r.name, r.group)
		}
		groups[strings.SplitN(r.name, "/", 2)[0]] = true
	}
	for g, there := range groups {
		if !there {
			t.Errorf("no row of group %s", g)
		}
	}
}
