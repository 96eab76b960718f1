package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/roce-xdp/roce-xdp/internal/daemon/config"
)

// beProgram makes the test binary the program itself, for tests that need a
// process of their own.
const beProgram = "ROCE_XDP_TEST_BE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(beProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// command is one command line and what has to come of it. The expectations are
// regular expressions in multi-line mode; no expectation of stdout means that it
// is empty.
type command struct {
	line   string
	code   int
	stdout []string
	stderr []string
	absent string // must not be on stdout
}

func (c command) run(t *testing.T) {
	t.Helper()
	var stdout, stderr strings.Builder
	if code := run(strings.Fields(c.line), &stdout, &stderr); code != c.code {
		t.Errorf("exit code %d, want %d; stderr: %s", code, c.code, stderr.String())
	}
	for _, want := range c.stdout {
		if !regexp.MustCompile(`(?m)` + want).MatchString(stdout.String()) {
			t.Errorf("stdout does not match %q:\n%s", want, stdout.String())
		}
	}
	for _, want := range c.stderr {
		if !regexp.MustCompile(`(?m)` + want).MatchString(stderr.String()) {
			t.Errorf("stderr does not match %q:\n%s", want, stderr.String())
		}
	}
	if len(c.stdout) == 0 && stdout.Len() > 0 {
		t.Errorf("unexpected output:\n%s", stdout.String())
	}
	if c.absent != "" && regexp.MustCompile(c.absent).MatchString(stdout.String()) {
		t.Errorf("stdout matches %q:\n%s", c.absent, stdout.String())
	}
}

func runAll(t *testing.T, commands []command) {
	t.Helper()
	for _, c := range commands {
		t.Run("roce-xdp "+c.line, c.run)
	}
}

func TestVersion(t *testing.T) {
	runAll(t, []command{
		{line: "version", stdout: []string{`^roce-xdp \S+.* go1\.\d+.* linux/\w+$`}},
		{line: "version -j", stdout: []string{`"version": ".+"`, `"go": "go1`, `"arch": "\w+"`}},
	})
}

func TestHelp(t *testing.T) {
	runAll(t, []command{
		{line: "", stdout: []string{`Available Commands`, `sudo roce-xdp demo`}},
		{line: "demo --help", stdout: []string{`two network namespaces`, `--mode string`, `Examples:`}},
		{line: "perf", stdout: []string{`write-bw +RDMA_Write BW Test`, `atomic-lat +Atomic FETCH_AND_ADD Latency Test`}},
		// The short options of perftest.
		{line: "perf write-bw --help", stdout: []string{
			`-d, --device`, `-s, --size`, `-n, --iters`, `-q, --qp`, `-t, --tx-depth`, `-x, --gid-index`,
			`-D, --duration`, `-a, --all`, `-b, --bidirectional`, `-Q, --cq-mod`, `--report_gbits`,
		}},
		// What makes no sense for a latency test is not offered.
		{line: "perf write-lat --help", stdout: []string{`-n, --iters`}, absent: `--qp |--bidirectional|--cq-mod`},
		// Atomics have one size.
		{line: "perf atomic-bw --help", stdout: []string{`-q, --qp`}, absent: `--all`},
		// An index that means "not given" is no default.
		{line: "perf send-bw --help", stdout: []string{`address\)$`}, absent: `default -1`},
		{line: "pingpong rc --help", stdout: []string{`address\)$`}, absent: `default -1`},
		// The options of ibv_rc_pingpong.
		{line: "pingpong rc --help", stdout: []string{
			`-p, --port`, `-d, --device`, `-g, --gid-idx`, `-m, --mtu`, `-r, --rx-depth`, `-n, --iters`,
			`-s, --size`, `-l, --sl`, `-e, --events`, `-c, --chk`, `ibv_rc_pingpong -d rxe0 -g 1`,
		}},
		{line: "pingpong uc --help", stdout: []string{`-m, --mtu`, `ibv_uc_pingpong -d rxe0 -g 1`, `not sent again`, `-s, --size int .*default 4096`}},
		// Datagrams have no path MTU of their own.
		{line: "pingpong srq --help", stdout: []string{`-q, --num-qp int .*default 16`, `ibv_srq_pingpong -d rxe0 -g 1`, `over all queue pairs`}},
		{line: "pingpong ud --help", stdout: []string{`ibv_ud_pingpong -d rxe0 -g 1`, `-s, --size int .*default 1024`}, absent: `--mtu`},
		// The options of rping.
		{line: "ping --help", stdout: []string{
			`-s, --server`, `-c, --client`, `-a, --address`, `-I, --source`, `-p, --port int .*default 7174`, `-S, --size int .*default 64`,
			`-C, --count`, `-v, --verbose`, `-V, --validate`, `-P, --persistent`, `-d, --debug`, `-q, --own-qp`, `--timeout duration .*default 5s`,
		}},
		// The words and options of rdma(8).
		{line: "resource --help", stdout: []string{`-j, --json`, `-p, --pretty`, `-d, --details`, `--runtime-dir`, `resource show qp link eth0/1 state RTS`, `resource, res`}},
		{line: "statistic show --help", stdout: []string{`show \[link \[DEV\[/PORT\]\]\]`, `-j, --json`}},
		{line: "run --help", stdout: []string{`run \[flags\] IFACE\.\.\.`, `--config string`, `--stop-timeout string`, `--pin +keep`, `SIGHUP`}},
		{line: "completion bash", stdout: []string{`__start_roce-xdp`}},
	})
}

// A command line that is not understood: exit code 2, a line that says why, one
// that says where help is, nothing on standard output.
func TestMisuse(t *testing.T) {
	runAll(t, []command{
		{line: "fly", code: 2, stderr: []string{`^roce-xdp: no command "fly"$`, `^See 'roce-xdp --help'\.$`}},
		{line: "version now", code: 2, stderr: []string{`^roce-xdp: version takes no arguments, not 1$`}},
		{line: "demo --speed 9", code: 2, stderr: []string{`^roce-xdp: unknown flag: --speed$`, `^See 'roce-xdp demo --help'\.$`}},
		{line: "demo --mtu nine", code: 2, stderr: []string{`invalid argument "nine" for "--mtu"`}},
		{line: "demo --mtu 335", code: 2, stderr: []string{`--mtu is 335: 336`}},
		{line: "demo --queues 0", code: 2, stderr: []string{`--queues is 0: 1 to 64`}},
		{line: "demo --mode fast", code: 2, stderr: []string{`unknown XDP mode "fast": want auto, native \(drv\) or generic \(skb\)`}},
		{line: "ping", code: 2, stderr: []string{`one of -s, the server, and -c, the client, is needed`, `^See 'roce-xdp ping --help'\.$`}},
		{line: "ping -s -c", code: 2, stderr: []string{`one of -s`}},
		{line: "ping -c", code: 2, stderr: []string{`the server's address \(-a\) is needed`}},
		{line: "ping -c 192.0.2.1", code: 2, stderr: []string{`the server's address is given by -a`}},
		{line: "ping -s -p 65536", code: 2, stderr: []string{`port \(-p\) is 65536`}},
		{line: "ping -c -a 192.0.2.1 -S 22", code: 2, stderr: []string{`size \(-S\) is 22: 23 to 65535`}},
		{line: "ping -c -a 192.0.2.1 --timeout 0s", code: 2, stderr: []string{`--timeout is 0s`}},
		{line: "ping -s --daemon --in-process", code: 2, stderr: []string{`^roce-xdp: --daemon and --in-process exclude each other$`}},
		{line: "perf write-bw --daemon --queues 2", code: 2, stderr: []string{`--mode and --queues are the daemon's to choose`}},
		{line: "resolve 127.0.0.1 --daemon --in-process", code: 2, stderr: []string{`exclude each other`}},
		{line: "ping -s --mode fast", code: 2, stderr: []string{`unknown XDP mode "fast"`}},
		{line: "perf fly-bw", code: 2, stderr: []string{`no test "fly-bw"`}},
		{line: "perf write-bw -n 2", code: 2, stderr: []string{`iterations \(-n\) is 2: 5 to`}},
		{line: "perf write-bw -n 0", code: 2, stderr: []string{`--iters is 0: leave it out for the default`}},
		{line: "perf write-bw -q 0", code: 2, stderr: []string{`--qp is 0`}},
		{line: "perf read-lat -D 0", code: 2, stderr: []string{`--duration is 0`}},
		{line: "perf write-bw -p 0", code: 2, stderr: []string{`port \(-p\) is 0: 1 to 65535`}},
		{line: "perf write-bw -p 65536", code: 2, stderr: []string{`port \(-p\) is 65536`}},
		{line: "pingpong rc -p 0", code: 2, stderr: []string{`port \(-p\) is 0`}},
		{line: "perf write-bw -m 1500", code: 2, stderr: []string{`256, 512, 1024, 2048 and 4096`}},
		{line: "perf atomic-lat -s 4", code: 2, stderr: []string{`atomics have 8 bytes`}},
		{line: "perf write-lat -s 0", code: 2, stderr: []string{`\(-s\) is 0: 1 to`}},
		{line: "perf write-bw one two", code: 2, stderr: []string{`one argument at most is possible, .*, not 2$`}},
		{line: "perf write-bw -F -n 2", code: 2, stderr: []string{`iterations`}}, // -F is taken
		{line: "pingpong xrc", code: 2, stderr: []string{`no ping-pong "xrc": rc, uc, ud and srq are there`}},
		{line: "pingpong srq -q 256", code: 2, stderr: []string{`num-qp \(-q\) is 256: 1 to 255`}},
		{line: "pingpong rc -q 4", code: 2, stderr: []string{`unknown shorthand flag: 'q' in -q`}},
		{line: "pingpong uc -m 9000", code: 2, stderr: []string{`mtu \(-m\) is 9000`}},
		{line: "pingpong ud -m 1024", code: 2, stderr: []string{`unknown shorthand flag: 'm' in -m`, `^See 'roce-xdp pingpong ud --help'\.$`}},
		{line: "pingpong ud -s 0", code: 2, stderr: []string{`size \(-s\) is 0`}},
		{line: "link show eth0/2", code: 2, stderr: []string{`"eth0/2" is no device: DEV and DEV/1 are possible`, `^See 'roce-xdp link show --help'\.$`}},
		{line: "resource show spoon eth0", code: 2, stderr: []string{`there are no resources "spoon", but pd, cq, qp`}},
		{line: "resource qp lqpn", code: 2, stderr: []string{`"lqpn" has no value`, `^See 'roce-xdp resource --help'\.$`}},
		{line: "statistic show link eth0 eth1", code: 2, stderr: []string{`one device at most`}},
		{line: "run --speed 9 eth0", code: 2, stderr: []string{`unknown flag: --speed`}},
		{line: "pingpong rc -m 9000", code: 2, stderr: []string{`mtu \(-m\) is 9000`}},
	})
}

// A failure: exit code 1 and one line that says what is wrong and what to do.
func TestFailures(t *testing.T) {
	runAll(t, []command{
		{line: "perf write-bw -d nosuch0", code: 1, stderr: []string{`\Aroce-xdp: .*nosuch0.*\n\z`}},
		{line: "pingpong ud -d nosuch0", code: 1, stderr: []string{`\Aroce-xdp: .*nosuch0.*\n\z`}},
		{line: "pingpong rc -d nosuch0", code: 1, stderr: []string{`\Aroce-xdp: .*nosuch0.*\n\z`}},
		{line: "ping -s --device nosuch0", code: 1, stderr: []string{`\Aroce-xdp: .*nosuch0.*\n\z`}},
		{line: "ping -c -a 127.0.0.1", code: 1, stderr: []string{`^roce-xdp: no network interface but loopback has the address 127.0.0.1`}},
		{line: "link --runtime-dir /nonexistent", code: 1, stderr: []string{`^roce-xdp: no daemon runs in /nonexistent: start one with roce-xdp run IFACE, or name its directory with --runtime-dir$`}},
		{line: "res show qp -j --runtime-dir /nonexistent", code: 1, stderr: []string{`no daemon runs`}},
		{line: "stat --runtime-dir /nonexistent", code: 1, stderr: []string{`no daemon runs`}},
		{line: "validate", code: 1, stderr: []string{`^roce-xdp: configuration: no interface to serve: name one on the command line, or in the file as \[interface\.eth0\]$`}},
		{line: "validate eth0 --mode fast", code: 1, stderr: []string{`--mode: .*"fast"`}},
		{line: "validate --config /nonexistent", code: 1, stderr: []string{`open /nonexistent: no such file`}},
		{line: "run eth0 --user no-such-user", code: 1, stderr: []string{`there is no user no-such-user in /etc/passwd`}},
		{line: "perf write-bw -p 1 127.0.0.1", code: 1, stderr: []string{`^roce-xdp: connect to 127.0.0.1:1: .*start the server first`}},
		{line: "pingpong rc -p 1 127.0.0.1", code: 1, stderr: []string{`couldn't connect to 127.0.0.1:1.*start the server first`}},
	})
}

// Every command says what it is for and shows how it is used.
func TestEveryCommandHasHelp(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" {
			t.Errorf("%q has no description", c.CommandPath())
		}
		if c.Example == "" {
			t.Errorf("%q has no example", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
}

// The example of docs/daemon.md is valid, but for its groups and users, which a machine has
// or not.
func TestValidate(t *testing.T) {
	doc, err := os.ReadFile("../../docs/daemon.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, ok := strings.Cut(string(doc), "often wanted:\n\n")
	example, _, more := strings.Cut(example, "\n\n### ")
	if !ok || !more {
		t.Fatal("no example in docs/daemon.md")
	}
	for name, present := range map[string]string{`"operators"`: `"daemon"`, `"hpc"`: `"daemon"`, `"ci"`: `"nobody"`} {
		if !strings.Contains(example, name) {
			t.Errorf("the example has no %s", name)
		}
		example = strings.ReplaceAll(example, name, present)
	}
	file := filepath.Join(t.TempDir(), "roce-xdp.toml")
	if err := os.WriteFile(file, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	runAll(t, []command{
		{line: "validate --config " + file, stdout: []string{`^valid, for 2 interfaces$`}},
		{line: "validate eth7", stdout: []string{`^valid, for 1 interface$`}},
		{line: "validate eth7 --pin --config " + file, stdout: []string{`^valid, for 3 interfaces$`}},
	})
}

// Every key of the configuration has its line in docs/daemon.md.
func TestEveryKeyIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/daemon.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range config.Keys() {
		// A table has brackets.
		if !strings.Contains(string(doc), "`"+key+"`") && !strings.Contains(string(doc), "["+key) {
			t.Errorf("docs/daemon.md does not have %s", key)
		}
	}
}

func TestResolve(t *testing.T) {
	runAll(t, []command{
		{line: "resolve 127.0.0.1", stdout: []string{`^destination  127\.0\.0\.1$`, `^device       lo$`, `own address$`}},
		{line: "resolve ::1 -I nosuch0", code: exitFailure, stdout: []string{`^destination  ::1$`}, stderr: []string{`no interface nosuch0`}},
		{line: "resolve", code: exitUsage, stderr: []string{`one argument is needed`}},
		{line: "resolve 127.0.0.1 --tos 300", code: exitUsage, stderr: []string{`0 to 255`}},
	})
}
