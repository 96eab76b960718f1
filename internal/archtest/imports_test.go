package archtest

import (
	"slices"
	"strings"
	"testing"
)

// pure packages are functions of their arguments: no I/O, no clock.
var pure = []string{
	"internal/wire", "internal/psn", "internal/mono", "internal/ibv",
	"internal/queue", "internal/memory", "internal/transport", "internal/cmfsm", "internal/proto",
}

// allowed are the packages of the module that a package may import directly,
// besides those in its own internal directory, which have the same rule. What is
// not listed is at the outer rim: see tools.
var allowed = map[string][]string{
	"internal/psn":       {},
	"internal/mono":      {},
	"internal/ibv":       {},
	"internal/buildinfo": {},
	"internal/giveway":   {},
	"internal/pcap":      {},
	"internal/pcapng":    {},
	"internal/wire":      {"internal/psn", "internal/ibv"},
	"internal/queue":     {"internal/ibv"},
	"internal/memory":    {"internal/ibv", "internal/mono", "internal/queue"},
	"internal/transport": {"internal/queue", "internal/memory", "internal/wire", "internal/psn", "internal/mono", "internal/ibv"},
	"internal/simnet":    {"internal/transport", "internal/queue", "internal/memory", "internal/wire", "internal/psn", "internal/mono", "internal/ibv", "internal/pcap"},
	"internal/cmfsm":     {"internal/wire", "internal/psn", "internal/mono", "internal/ibv"},
	"internal/proto":     {"internal/cmfsm", "internal/wire", "internal/ibv"},
	"internal/shm":       {"internal/queue", "internal/proto"},
	"internal/session":   {"internal/shm", "internal/proto", "internal/queue"},
	"bpf":                {"internal/wire", "internal/ibv"},
	"datapath/xsk":       {},
	"verbs":              {"internal/queue", "internal/ibv", "internal/shm", "internal/proto", "internal/session", "internal/giveway"},
	"cm/resolve":         {"verbs", "internal/wire"},
	"datapath": {
		"bpf", "datapath/xsk", "verbs", "cm/resolve", "internal/giveway", "internal/shm", "internal/transport", "internal/queue",
		"internal/memory", "internal/wire", "internal/psn", "internal/mono", "internal/ibv",
	},
	"internal/daemon/serve": {
		"datapath", "verbs", "internal/cmengine", "internal/cmfsm", "internal/transport", "internal/memory", "internal/queue",
		"internal/shm", "internal/proto", "internal/wire", "internal/ibv",
	},
	"internal/connect":  {"verbs"},
	"internal/cmengine": {"verbs", "internal/session", "internal/shm", "internal/proto", "internal/cmfsm", "internal/wire", "internal/mono", "internal/ibv"},
	"cm":                {"verbs", "internal/cmengine", "internal/cmfsm", "internal/wire", "internal/ibv"},
	"test/netns":        {},

	"internal/daemon": {
		"bpf", "datapath", "verbs", "internal/buildinfo", "internal/daemon/config", "internal/daemon/control",
		"internal/daemon/privilege", "internal/session", "internal/shm", "internal/ibv", "internal/cmfsm", "internal/wire", "internal/daemon/sdnotify", "internal/daemon/serve",
	},
	"internal/daemon/config":    {"bpf", "datapath", "datapath/xsk", "verbs", "internal/session"},
	"internal/daemon/control":   {"internal/buildinfo", "internal/shm"},
	"internal/daemon/privilege": {},
	"internal/daemon/sdnotify":  {},
	"internal/daemon/show":      {"internal/daemon/control"},
}

// tools are packages at the outer rim, which may use everything inside.
var tools = []string{
	"cmd/", "bench", "examples", "test/", "verbs/verbstest", "internal/daemon/daemontest", "internal/abi", "datapath/datapathtest", "datapath/xsk/xsktest", "internal/archtest",
	"internal/perf", "internal/ping", "internal/pingpong", "internal/demo", "internal/conformance", "internal/explain", "internal/opener", "packaging",
}

func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// ruleOf finds the row of the table for a package.
func ruleOf(path string) (parent string, rule []string, ok bool) {
	parent, _, _ = strings.Cut(path, "/internal/")
	if strings.HasPrefix(path, "internal/") {
		parent = path
	}
	rule, ok = allowed[parent]
	return parent, rule, ok
}

func isTool(path string) bool {
	return slices.ContainsFunc(tools, func(t string) bool { return within(path, t) })
}

func TestImportsPointInward(t *testing.T) {
	for _, p := range packages(t) {
		parent, rule, ok := ruleOf(p.rel())
		if !ok {
			continue
		}
		for _, imp := range p.Imports {
			inner, ours := strings.CutPrefix(imp, module+"/")
			if ours && !slices.Contains(rule, inner) && !within(inner, parent+"/internal") {
				t.Errorf("%s imports %s, it may import %v", p.rel(), inner, rule)
			}
		}
	}
}

func TestEveryPackageHasARule(t *testing.T) {
	for _, p := range packages(t) {
		if _, _, ok := ruleOf(p.rel()); !ok && !isTool(p.rel()) {
			t.Errorf("%s is neither in the table of imports nor at the outer rim: decide where it belongs", p.rel())
		}
	}
}

// Nothing inside depends on what is at the rim.
func TestRimIsNotImported(t *testing.T) {
	for _, p := range packages(t) {
		if isTool(p.rel()) {
			continue
		}
		for _, imp := range p.Imports {
			if inner, ours := strings.CutPrefix(imp, module+"/"); ours && isTool(inner) {
				t.Errorf("%s imports %s, which is at the outer rim", p.rel(), inner)
			}
		}
	}
}

func TestPurePackagesDoNoIO(t *testing.T) {
	forbidden := func(imp string) bool {
		return imp == "os" || strings.HasPrefix(imp, "os/") || imp == "net" || imp == "net/http" || imp == "syscall" ||
			strings.HasPrefix(imp, "golang.org/x/sys") || strings.HasPrefix(imp, "github.com/cilium/ebpf") ||
			strings.HasPrefix(imp, "github.com/vishvananda/")
	}
	for _, p := range packages(t) {
		if !slices.Contains(pure, p.rel()) {
			continue
		}
		for _, imp := range p.Imports {
			if forbidden(imp) {
				t.Errorf("%s imports %s: it is a pure package", p.rel(), imp)
			}
		}
	}
}

// An application that talks to a daemon links neither XDP nor AF_XDP.
func TestVerbsLinksNoDatapath(t *testing.T) {
	for _, p := range packages(t) {
		if p.rel() != "verbs" {
			continue
		}
		for _, dep := range p.Deps {
			if strings.HasPrefix(dep, "github.com/cilium/") || within(dep, module+"/datapath") || within(dep, module+"/bpf") {
				t.Errorf("verbs depends on %s", dep)
			}
		}
		return
	}
	t.Error("there is no package verbs")
}

func TestNoCgo(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains(p.Imports, "C") {
			t.Errorf("%s uses cgo: the program is one static binary", p.rel())
		}
	}
}
