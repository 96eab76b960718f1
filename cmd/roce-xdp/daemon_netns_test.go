package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// runningDaemon is `roce-xdp run` as a process of its own.
type runningDaemon struct {
	cmd *exec.Cmd
	ns  *netns.NS
	dir string // runtime directory
	out *netns.Await
	log *netns.Await
}

// writeConfig makes text the daemon's configuration file.
func writeConfig(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// startDaemon starts one in a namespace and waits until it is ready.
func startDaemon(t *testing.T, ns *netns.NS, dir, line string) *runningDaemon {
	t.Helper()
	d := &runningDaemon{ns: ns, dir: dir, out: netns.NewAwait("roce-xdp: ready: "), log: netns.NewAwait("\n")}
	d.cmd = program(context.Background(), ns, "run --runtime-dir "+dir+" "+line)
	d.cmd.Stdout, d.cmd.Stderr = d.out, d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d.cmd.ProcessState == nil { // the test did not stop it
			_ = d.cmd.Process.Kill()
			_ = d.cmd.Wait()
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := d.out.Wait(ctx); err != nil {
		t.Fatalf("not ready: %v; it said %s", err, d.log)
	}
	return d
}

// stop ends the daemon, which has to end well in time.
func (d *runningDaemon) stop(t *testing.T) {
	t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(30*time.Second, func() { _ = d.cmd.Process.Signal(syscall.SIGQUIT) })
	defer kill.Stop()
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("ended with %v; it said %s", err, d.log)
	}
	left, err := filepath.Glob(filepath.Join(d.dir, "*.sock"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// ask runs a command that asks the daemon, and wants it to succeed.
func (d *runningDaemon) ask(t *testing.T, line string) string {
	t.Helper()
	var stdout, stderr strings.Builder
	if code := run(append(strings.Fields(line), "--runtime-dir", d.dir), &stdout, &stderr); code != 0 {
		t.Fatalf("%s: exit code %d: %s", line, code, stderr.String())
	}
	return stdout.String()
}

func wantMatch(t *testing.T, what, text string, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile(`(?m)` + p).MatchString(text) {
			t.Errorf("%s does not match %q:\n%s", what, p, text)
		}
	}
}

// xdpAttached reports whether the interface has an XDP program.
func xdpAttached(t *testing.T, ns *netns.NS, ifname string) bool {
	t.Helper()
	h, err := ns.Handle()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	l, err := h.LinkByName(ifname)
	if err != nil {
		t.Fatal(err)
	}
	return l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached
}

func TestNetnsRun(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 9000})
	d := startDaemon(t, pair.A.NS, filepath.Join(netns.ShortTempDir(t), "run"), "--user nobody eth0")
	wantMatch(t, "readiness", d.out.String(), `^roce-xdp: ready: eth0; sockets in `+d.dir+`$`)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	// CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK, CAP_BPF.
	wantMatch(t, "status", string(status), `^Uid:\t65534\t65534\t65534\t65534$`, `^CapEff:\t0000008000007000$`,
		`^CapPrm:\t0000008000007000$`, `^CapBnd:\t0000008000007000$`, `^NoNewPrivs:\t1$`)
	if !xdpAttached(t, pair.A.NS, "eth0") {
		t.Error("no XDP program")
	}

	var links []map[string]any
	if err := json.Unmarshal([]byte(d.ask(t, "link show -j")), &links); err != nil {
		t.Fatal(err)
	}
	if l := links[0]; len(links) != 1 || l["ifname"] != "eth0" || l["netdev"] != "eth0" || l["state"] != "ACTIVE" || l["port"] != 1.0 {
		t.Errorf("links %v", links)
	}
	wantMatch(t, "link", d.ask(t, "link show eth0/1 -d"), `^link eth0/1 state ACTIVE physical_state LINK_UP netdev eth0 netdev_index \d+$`,
		`^    active_mtu 4096 link_mtu 9000 .*xdp (native|generic) .*gids .*192\.0\.2\.1`)
	wantMatch(t, "statistic", d.ask(t, "statistic show link eth0"), `^link eth0/1 sent_pkts 0 rcvd_pkts 0 duplicate_request 0 out_of_seq_request 0 `)
	wantMatch(t, "statistic -j", d.ask(t, "stat -j"), `^\[\{"ifindex":0,"ifname":"eth0","port":1,"sent_pkts":0,`)
	wantMatch(t, "resource", d.ask(t, "res"), `^0: eth0: pd \d+ cq \d+ qp \d+ cm_id \d+ mr \d+ ctx \d+ srq \d+ client \d+$`)
	if got := d.ask(t, "resource show client -j"); got != "[]\n" {
		t.Errorf("clients %s", got)
	}
	runAll(t, []command{
		{line: "link show eth7 --runtime-dir " + d.dir, code: 1, stderr: []string{`^roce-xdp: no such device: the daemon does not serve eth7, it has eth0$`}},
		{line: "run eth0 --runtime-dir " + d.dir, code: 1, stderr: []string{`^roce-xdp: a daemon runs already in .*: stop it, or give this one another directory with --runtime-dir$`}},
	})
	t.Run("a user whom it does not answer", func(t *testing.T) {
		cmd := exec.Command("/proc/self/exe", "link", "--runtime-dir", d.dir)
		cmd.Env = append(os.Environ(), beProgram+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1234, Gid: 1234}}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitFailure {
			t.Errorf("%v: %s", err, out)
		}
		wantMatch(t, "error", string(out), `^roce-xdp: not allowed: only root, the daemon's user and its control group may use `)
	})
	d.stop(t)
	if xdpAttached(t, pair.A.NS, "eth0") {
		t.Error("the XDP program is still there")
	}
}

// An ordinary user is told which capabilities are missing.
func TestRunWithoutPrivileges(t *testing.T) {
	netns.Require(t) // root, to be somebody else
	cmd := exec.Command("/proc/self/exe", "run", "lo")
	cmd.Env = append(os.Environ(), beProgram+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1234, Gid: 1234}}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailure {
		t.Errorf("%v: %s", err, out)
	}
	wantMatch(t, "error", string(out), `^roce-xdp: the daemon lacks privileges: user 1234 has no CAP_BPF \(.*\), CAP_NET_ADMIN \(.*\), CAP_NET_RAW \(.*\): start it as root`)
}

// SIGHUP: an interface more, opened without the privileges of the start, one
// less, and settings that change while the device works.
func TestNetnsReload(t *testing.T) {
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 1500})
	err := pair.A.NS.Do(func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "more0"}, PeerName: "more1"})
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := netns.ShortTempDir(t)
	file := filepath.Join(dir, "roce-xdp.toml")
	write := func(text string) {
		t.Helper()
		writeConfig(t, file, "user = \"nobody\"\n"+text)
	}
	write("[interface.eth0]\n")
	d := startDaemon(t, pair.A.NS, filepath.Join(dir, "run"), "--config "+file)
	reload := func(says ...string) {
		t.Helper()
		before := len(d.log.String())
		if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		var new string
		for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
			new = d.log.String()[before:]
			if !slices.ContainsFunc(says, func(s string) bool { return !strings.Contains(new, s) }) {
				return
			}
		}
		t.Errorf("it said %q, want %q", new, says)
	}
	links := func(want string) {
		t.Helper()
		var names []string
		for _, line := range strings.Split(strings.TrimSpace(d.ask(t, "link")), "\n") {
			names = append(names, strings.Fields(line)[1])
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("devices %q, want %q", got, want)
		}
	}
	links("eth0/1")
	write("[interface.eth0]\nunknown_qpn = \"pass\"\n[interface.more0]\n")
	reload(`msg="reload: interface.eth0.unknown_qpn: default -> pass"`, `msg="reload: interface.more0: opened"`)
	links("eth0/1 more0/1")
	write("[interface.eth0]\nqueues = 1\nunknown_qpn = \"pass\"\n[interface.more0]\n[interface.nosuch0]\n")
	reload(`msg="reload: interface.eth0.queues: default -> 1, at the next start"`,
		`msg="reload: interface.nosuch0: datapath: open nosuch0: no such network interface`)
	links("eth0/1 more0/1 nosuch0/1")
	write("[interface.eth0]\nunknown_qp = \"pass\"\n")
	reload(`:3: unknown key interface.eth0.unknown_qp`)
	links("eth0/1 more0/1 nosuch0/1")
	write("[interface.eth0]\n")
	reload(`msg="reload: interface.eth0.unknown_qpn: pass -> default"`, `msg="reload: interface.more0: closed"`, `msg="reload: interface.nosuch0: closed"`)
	reload(`msg="reload: nothing is different"`)
	links("eth0/1")
	if xdpAttached(t, pair.A.NS, "more0") {
		t.Error("more0 still has the XDP program")
	}
	d.stop(t)
}
