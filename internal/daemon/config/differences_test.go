package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/roce-xdp/roce-xdp/bpf"
)

func TestDifferences(t *testing.T) {
	before := load(t, Source{File: file(t, "[interface.eth0]\nqueues = 2\nunknown_qpn = \"drop\"\nspin_time = \"5us\"\n")}).Interface("eth0")
	if d := before.Differences("eth0", before); len(d) != 0 {
		t.Errorf("no change: %v", d)
	}
	now := load(t, Source{File: file(t, "[interface.eth0]\nunknown_qpn = \"pass\"\nspin_time = \"5us\"\nno_socket = \"pass\"\n")}).Interface("eth0")
	want := []Key{
		{Name: "interface.eth0.queues", From: 2},
		{Name: "interface.eth0.unknown_qpn", From: bpf.ActionDrop, To: bpf.ActionPass, Live: true},
		{Name: "interface.eth0.no_socket", To: bpf.ActionPass, Live: true},
	}
	if got := before.Differences("eth0", now); !slices.Equal(got, want) {
		t.Errorf("differences %v, want %v", got, want)
	}
}

// Each difference is a line in the words of the file.
func TestDifferencesInWords(t *testing.T) {
	const iface = "[interface.eth0]\n"
	for _, tt := range []struct{ name, before, now, general, policy string }{
		{"none", iface, iface, "", ""},
		{"level and time", "stop_timeout = \"2s\"\n" + iface, "log_level = \"debug\"\n" + iface, "stop_timeout: 2s -> 5s; log_level: info -> debug", ""},
		{"names", "user = \"root\"\n" + iface, "group = \"rdma\"\npin_dir = \"/p\"\n" + iface, "pin_dir: /sys/fs/bpf/roce-xdp -> /p; user: root -> none; group: none -> rdma", ""},
		{"limits", "[limits]\nmax_qps = 100\nmax_bytes = \"1GiB\"\n" + iface, "[limits]\nmax_qps = 200\nmax_rate = \"1Gbit\"\n" + iface, "",
			"limits.max_qps: 100 -> 200; limits.max_bytes: 1GiB -> default; limits.max_rate: default -> 1Gbit"},
		{"entries", iface + "[[allow]]\nusers = [\"a\"]\n", iface, "", "allow: 1 entry -> 0 entries"},
		{"an entry", iface + "[[allow]]\nusers = [\"a\"]\n[[allow]]\nmax_qps = 1\n", iface + "[[allow]]\nusers = [\"a\", \"b\"]\n[[allow]]\nown_memory = false\ngroups = [\"c\"]\n", "",
			"allow[1].users: a -> a, b; allow[2].groups: none -> c; allow[2].max_qps: 1 -> default; allow[2].own_memory: default -> false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, now := load(t, Source{File: file(t, tt.before)}), load(t, Source{File: file(t, tt.now)})
			if got := inWords(before.General(now)); got != tt.general {
				t.Errorf("general: %q, want %q", got, tt.general)
			}
			if got := inWords(before.Policy(now)); got != tt.policy {
				t.Errorf("policy: %q, want %q", got, tt.policy)
			}
		})
	}
}

func inWords(keys []Key) string {
	var lines []string
	for _, k := range keys {
		lines = append(lines, k.String())
	}
	return strings.Join(lines, "; ")
}
