package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// rowsOf asks for resources of a kind.
func (d *runningDaemon) rowsOf(t *testing.T, words string) (rows []map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(d.ask(t, "resource show -j "+words)), &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// wantRow wants one row, with these values among its own.
func wantRow(t *testing.T, what string, rows []map[string]any, want map[string]any) {
	t.Helper()
	if len(rows) != 1 {
		t.Errorf("%s: %v, want one", what, rows)
		return
	}
	for key, value := range want {
		if rows[0][key] != value {
			t.Errorf("%s: %s is %v, want %v; all is %v", what, key, rows[0][key], value, rows[0])
		}
	}
}

// What a client makes is shown under rdma(8)'s names, and goes with it.
func TestNetnsResources(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 1500})
	d := startDaemon(t, pair.A.NS, filepath.Join(netns.ShortTempDir(t), "run"), "--user nobody eth0")
	t.Setenv("ROCE_XDP_RUNTIME_DIR", d.dir)
	dev, err := verbs.Open("eth0")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	buf, err := dev.AllocBuffer(8192)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pd.RegisterMemory(buf, verbs.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(100)
	if err != nil {
		t.Fatal(err)
	}
	qp, err := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8}})
	if err != nil {
		t.Fatal(err)
	}
	me := map[string]any{"ifname": "eth0", "ifindex": 0.0, "pid": float64(os.Getpid())}
	with := func(more map[string]any) map[string]any {
		for k, v := range me {
			more[k] = v
		}
		return more
	}
	wantRow(t, "qp", d.rowsOf(t, "qp"), with(map[string]any{
		"lqpn": float64(qp.Num()), "rqpn": 0.0, "type": "RC", "state": "RESET", "rq-psn": 0.0, "sq-psn": 0.0, "path-mig-state": "MIGRATED",
	}))
	wantRow(t, "cq", d.rowsOf(t, "cq"), with(map[string]any{"users": 2.0}))
	wantRow(t, "mr", d.rowsOf(t, "mr"), with(map[string]any{"mrlen": 8192.0}))
	wantRow(t, "pd", d.rowsOf(t, "pd"), with(map[string]any{"users": 2.0}))
	wantRow(t, "ctx", d.rowsOf(t, "ctx"), with(map[string]any{}))
	wantRow(t, "client", d.rowsOf(t, "client"), with(map[string]any{"uid": float64(os.Getuid()), "qps": 1.0, "registered_bytes": 8192.0}))
	wantRow(t, "summary", d.rowsOf(t, ""), map[string]any{"pd": 1.0, "cq": 1.0, "qp": 1.0, "mr": 1.0, "ctx": 1.0, "srq": 0.0, "cm_id": 0.0, "client": 1.0})
	wantRow(t, "filter", d.rowsOf(t, "qp link eth0 state RESET,INIT type RC"), with(map[string]any{}))
	if rows := d.rowsOf(t, "qp state RTS"); len(rows) != 0 {
		t.Errorf("in RTS: %v", rows)
	}
	wantMatch(t, "qp", d.ask(t, "res show qp"), `^link eth0/- lqpn \d+ rqpn 0 type RC state RESET rq-psn 0 sq-psn 0 path-mig-state MIGRATED pdn \d+ ctxn \d+ pid \d+ comm \S+$`)
	wantMatch(t, "mr", d.ask(t, "res show mr"), `^dev eth0 mrn \d+ rkey 0x[0-9a-f]+ lkey 0x[0-9a-f]+ iova 0x[0-9a-f]+ mrlen 8192 pdn \d+ ctxn `)
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	// The daemon sees the end of the connection a little later.
	for range 1000 {
		if len(d.rowsOf(t, "client")) == 0 {
			d.stop(t)
			return
		}
	}
	t.Errorf("still there: %v", d.rowsOf(t, "client"))
}

// Policy and limits of the file, and of one that replaces it.
func TestNetnsPolicy(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 1500})
	dir := netns.ShortTempDir(t)
	file := filepath.Join(dir, "roce-xdp.toml")
	write := func(text string) {
		t.Helper()
		writeConfig(t, file, "[interface.eth0]\n"+text)
	}
	write("[limits]\nmax_cqs = 1\n")
	d := startDaemon(t, pair.A.NS, filepath.Join(dir, "run"), "--config "+file)
	t.Setenv("ROCE_XDP_RUNTIME_DIR", d.dir)
	dev, err := verbs.Open("eth0")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if _, err := dev.CreateCQ(10); err != nil {
		t.Errorf("the first: %v", err)
	}
	if _, err := dev.CreateCQ(10); !errors.Is(err, verbs.ErrLimit) {
		t.Errorf("the second: %v, want ErrLimit", err)
	}
	write("[[allow]]\nusers = [\"nobody\"]\n")
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		var second *verbs.Context
		if second, err = verbs.Open("eth0"); err != nil {
			break
		}
		second.Close()
	}
	if !errors.Is(err, verbs.ErrPermission) {
		t.Errorf("a user who is not named: %v, want ErrPermission", err)
	}
	if _, err := dev.QueryPort(); err != nil {
		t.Errorf("who was there before: %v", err)
	}
	d.stop(t)
}
