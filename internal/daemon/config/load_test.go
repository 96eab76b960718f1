package config

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/bpf"
	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/datapath/xsk"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// file writes a configuration file and gives its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "roce-xdp.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, s Source) *Config {
	t.Helper()
	c, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// environment makes a Source.Env.
func environment(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

const everyKey = `
runtime_dir = "/run/other"
pin_dir = "/sys/fs/bpf/other"
user = "rdma"
group = "operators"
stop_timeout = "1m30s"
log_level = "debug"

[defaults]
mode = "native"
poll = "busy"
window = 64

[interface.eth0]
mode = "generic"
socket = "zero-copy"
queues = 4
frames = 1024
frame_size = 2048
ring_size = 512
huge_pages = true
busy_poll_usecs = 20
busy_poll_budget = 16
unknown_qpn = "pass"
no_socket = "pass"
pin = true
spin_time = "7us"
keep_budget = 0
congestion = "dcqcn"
line_rate = "25Gbit"
cnp_interval = "0s"

[interface."eth1.100"]
pin = true

[limits]
max_qps = 1000

[[allow]]
users = ["alice", "1001"]
max_bytes = "1GiB"

[[allow]]
groups = ["rdma"]
max_clients = 2
max_cqs = 3
max_srqs = 4
max_mrs = 5
max_pds = 6
max_ahs = 7
max_xrcds = 8
max_cm_ids = 9
max_mcast_attach = 14
max_registered = "2TiB"
max_rate = "100Mbit"
max_message_rate = 1000
own_memory = false
privileged = true
interfaces = ["eth0"]
`

func TestLoadFile(t *testing.T) {
	c := load(t, Source{File: file(t, everyKey)})
	if c.RuntimeDir != "/run/other" || c.User != "rdma" || c.Group != "operators" || c.LogLevel != slog.LevelDebug ||
		c.StopTimeout.Std() != 90*time.Second {
		t.Errorf("top level: %+v", c)
	}
	if got := c.Names(); !slices.Equal(got, []string{"eth0", "eth1.100"}) {
		t.Errorf("interfaces %v", got)
	}
	want := datapath.Options{
		Mode: bpf.ModeGeneric, Socket: xsk.ZeroCopy, Queues: 4, Frames: 1024, FrameSize: 2048, RingSize: 512, HugePages: true,
		BusyPoll: xsk.BusyPoll{Usecs: 20, Budget: 16}, UnknownQPN: bpf.ActionPass, NoSocket: bpf.ActionPass,
		PinDir: "/sys/fs/bpf/other/eth0", Poll: datapath.PollBusy, SpinTime: 7 * time.Microsecond, Window: 64,
		KeepBudget: -1, Congestion: verbs.CongestionDCQCN, LineRate: 25e9, CNPInterval: -1, OwnThreads: true,
	}
	if got := c.Options("eth0"); !equalOptions(*got, want) {
		t.Errorf("eth0: %+v\nwant  %+v", *got, want)
	}
	// The other has the defaults, and a directory that a BPF file system takes.
	want = datapath.Options{
		Mode: bpf.ModeNative, Poll: datapath.PollBusy, Window: 64, PinDir: "/sys/fs/bpf/other/eth1%2E100",
		Congestion: verbs.CongestionNone, OwnThreads: true,
	}
	if got := c.Options("eth1.100"); !equalOptions(*got, want) {
		t.Errorf("eth1.100: %+v\nwant      %+v", *got, want)
	}
	if *c.Limits.QPs != 1000 || len(c.Allow) != 2 || *c.Allow[0].Bytes != 1<<30 || *c.Allow[1].Rate != 1e8 ||
		*c.Allow[1].Registered != 2<<40 || *c.Allow[1].OwnMemory || *c.Allow[1].MessageRate != 1000 || !*c.Allow[1].Privileged || c.Allow[1].Interfaces[0] != "eth0" {
		t.Errorf("limits %+v, allow %+v", c.Limits, c.Allow)
	}
}

func equalOptions(a, b datapath.Options) bool {
	if len(a.VLANAddrs)+len(b.VLANAddrs) != 0 {
		return false
	}
	a.VLANAddrs, b.VLANAddrs = nil, nil
	return a.Mode == b.Mode && a.Socket == b.Socket && a.Queues == b.Queues && a.Frames == b.Frames && a.FrameSize == b.FrameSize &&
		a.RingSize == b.RingSize && a.HugePages == b.HugePages && a.BusyPoll == b.BusyPoll && a.UnknownQPN == b.UnknownQPN &&
		a.NoSocket == b.NoSocket && a.PinDir == b.PinDir && a.Poll == b.Poll && a.SpinTime == b.SpinTime && a.Window == b.Window &&
		a.KeepBudget == b.KeepBudget && a.Congestion == b.Congestion && a.LineRate == b.LineRate && a.CNPInterval == b.CNPInterval
}

// The command line is over the environment, that over the file, that over defaults.
func TestPrecedence(t *testing.T) {
	path := file(t, "runtime_dir = \"/file\"\nuser = \"file\"\n[interface.eth0]\nqueues = 1\nmode = \"native\"\n")
	env := environment(map[string]string{
		"ROCE_XDP_CONFIG": path, "ROCE_XDP_RUNTIME_DIR": "/env", "ROCE_XDP_QUEUES": "2", "ROCE_XDP_USER": "env",
		"ROCE_XDP_INTERFACES": "eth8,eth9", "ROCE_XDP_GROUP": "",
	})
	c := load(t, Source{Env: env})
	if c.RuntimeDir != "/env" || c.User != "env" || c.Group != "" || c.Options("eth0").Queues != 2 || c.Options("eth0").Mode != bpf.ModeNative {
		t.Errorf("environment: %+v, %+v", c, c.Options("eth0"))
	}
	if got := c.Names(); !slices.Equal(got, []string{"eth0", "eth8", "eth9"}) {
		t.Errorf("interfaces %v", got)
	}
	c = load(t, Source{Env: env, Interfaces: []string{"eth1"}, Flags: map[string]string{
		"runtime-dir": "/flag", "queues": "3", "mode": "skb", "stop-timeout": "9s", "log-level": "warn", "group": "g",
		"pin": "true", "pin-dir": "/p",
	}})
	if c.RuntimeDir != "/flag" || c.User != "env" || c.StopTimeout.Std() != 9*time.Second || c.LogLevel != slog.LevelWarn || c.Group != "g" {
		t.Errorf("command line: %+v", c)
	}
	if o := c.Options("eth0"); o.Queues != 3 || o.Mode != bpf.ModeGeneric || o.PinDir != "/p/eth0" {
		t.Errorf("command line: eth0 %+v", o)
	}
	if got := c.Names(); !slices.Equal(got, []string{"eth0", "eth1"}) {
		t.Errorf("interfaces %v", got)
	}
	c = load(t, Source{Interfaces: []string{"eth0"}})
	if c.RuntimeDir != session.DefaultDir || c.StopTimeout.Std() != 5*time.Second || c.LogLevel != slog.LevelInfo || len(c.Allow) != 0 {
		t.Errorf("defaults: %+v", c)
	}
}

// What is wrong in the file comes with its line.
func TestFileErrors(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		says       []string
	}{
		{"unknown key", "user = \"a\"\nusr = \"b\"\n", []string{":2: unknown key usr"}},
		{"unknown keys of tables", "[interface.eth0]\nfoo = 1\n[[allow]]\nbar = 2\n", []string{":2: unknown key interface.eth0.foo", ":4: unknown key allow.bar"}},
		{"interfaces as a list", "user = \"a\"\ninterfaces = [\"eth0\"]\n", []string{":2: unknown key interfaces: each interface is a table: [interface.eth0]"}},
		{"interfaces as tables in a list", "[[interface]]\nname = \"eth0\"\n", []string{":1: interface: ", ": each interface is a table: [interface.eth0]"}},
		{"interfaces as text", "interface = \"eth0\"\n", []string{":1: interface: ", ": each interface is a table: [interface.eth0]"}},
		{"unknown table", "[interface.eth0]\n\n[polcy]\n", []string{":3: unknown key polcy"}},
		{"syntax", "user = \n", []string{":1: "}},
		{"twice", "user = \"a\"\nuser = \"b\"\n", []string{":2: ", "already defined"}},
		{"text for a number", "[interface.eth0]\nqueues = \"two\"\n", []string{":2: interface.eth0.queues: ", "it has to be a number"}},
		{"number for a text", "user = 7\n", []string{":1: user: ", "it has to be text"}},
		{"text for a flag", "[defaults]\npin = \"yes\"\n", []string{":2: defaults.pin: ", "true or false"}},
		{"mode", "[interface.eth0]\nmode = \"fast\"\n", []string{":2: interface.eth0.mode: ", `"fast"`, "native"}},
		{"poll", "[interface.eth0]\npoll = \"lazy\"\n", []string{":2: ", "not one of adaptive, interrupt and busy"}},
		{"duration", "stop_timeout = \"3 apples\"\n", []string{":1: stop_timeout: ", `such as "50us"`}},
		{"size", "[limits]\nmax_bytes = \"64 apples\"\n", []string{":2: ", `such as "64MiB"`}},
		{"rate", "[limits]\nmax_rate = \"fast\"\n", []string{":2: ", `such as "100Mbit"`}},
		{"level", "log_level = \"loud\"\n", []string{":1: ", "loud"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := file(t, tt.text)
			_, err := (&Source{File: path, Interfaces: []string{"eth0"}}).Load()
			if !errors.Is(err, ErrConfig) {
				t.Fatalf("error %v", err)
			}
			for _, says := range append(tt.says, path) {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%v\ndoes not say %q", err, says)
				}
			}
			if strings.Contains(err.Error(), "config.") || strings.Contains(err.Error(), "struct") {
				t.Errorf("%v\nspeaks of Go", err)
			}
		})
	}
}

// What is understood and cannot be.
func TestValueErrors(t *testing.T) {
	for _, tt := range []struct{ name, text, says string }{
		{"no interface", "", "no interface to serve"},
		{"interface name", "[interface.\"a/b\"]\n", `"a/b" is not the name of a network interface`},
		{"long name", "[interface.abcdefghijklmnop]\n", "not the name"},
		{"runtime directory", "runtime_dir = \"run\"\n[interface.eth0]\n", "runtime_dir is \"run\": an absolute path"},
		{"stop time", "stop_timeout = \"-1s\"\n[interface.eth0]\n", "stop_timeout is -1s"},
		{"ring", "[interface.eth0]\nring_size = 100\n", "interface eth0: bad option: RingSize is 100"},
		{"queues", "[interface.eth0]\nqueues = 65\n", "interface eth0: bad option: Queues is 65"},
		{"negative limit", "[interface.eth0]\n[limits]\nmax_qps = -1\n", "limits: max_qps is -1"},
		{"no bytes", "[interface.eth0]\n[limits]\nmax_bytes = \"0B\"\n", "limits: max_bytes is 0B"},
		{"rule for no interface", "[interface.eth0]\n[[allow]]\ninterfaces = [\"a/b\"]\n", "allow, entry 1: \"a/b\" is not the name"},
		{"low rate", "[interface.eth0]\n[[allow]]\n[[allow]]\nmax_rate = \"1Kbit\"\n", "allow, entry 2: max_rate is 1Kbit"},
		{"nobody", "[interface.eth0]\n[[allow]]\nusers = [\"\"]\n", "allow, entry 1: a user or group without a name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := (&Source{File: file(t, tt.text)}).Load()
			if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want that it says %q", err, tt.says)
			}
		})
	}
	for name, s := range map[string]Source{
		"--mode: ":                     {Flags: map[string]string{"mode": "fast"}},
		"--queues: \"x\" is not":       {Flags: map[string]string{"queues": "x"}},
		"--pin: \"perhaps\"":           {Flags: map[string]string{"pin": "perhaps"}},
		"ROCE_XDP_LOG_LEVEL: ":         {Env: environment(map[string]string{"ROCE_XDP_LOG_LEVEL": "loud"})},
		"ROCE_XDP_STOP_TIMEOUT: \"1\"": {Env: environment(map[string]string{"ROCE_XDP_STOP_TIMEOUT": "1"})},
		"no such file":                 {File: "/nonexistent/roce-xdp.toml"},
	} {
		s.Interfaces = []string{"eth0"}
		if _, err := s.Load(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want that it says %q", err, name)
		}
	}
}
