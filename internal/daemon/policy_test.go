package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roce-xdp/roce-xdp/internal/daemon/config"
	"github.com/roce-xdp/roce-xdp/internal/daemon/serve"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

func policyOf(t *testing.T, text string) *policy {
	t.Helper()
	file := filepath.Join(t.TempDir(), "toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := (&config.Source{File: file, Interfaces: []string{"eth0"}}).Load()
	if err != nil {
		t.Fatal(err)
	}
	p := new(policy)
	if err := p.set(c); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPolicy(t *testing.T) {
	const rules = `
[limits]
max_qps = 10
max_cqs = 20
[[allow]]
users = ["nobody", "4711"]
max_qps = 1
[[allow]]
groups = ["daemon"]
max_cqs = 2
[[allow]]
users = ["root"]
max_qps = 5
`
	p := policyOf(t, rules)
	for _, tt := range []struct {
		name     string
		who      shm.Cred
		qps, cqs int // 0: not admitted
	}{
		{"by name", shm.Cred{UID: 65534}, 1, 20},
		{"by number", shm.Cred{UID: 4711}, 1, 20},
		{"by group", shm.Cred{UID: 9, GID: 1}, 10, 2},
		{"by another group", shm.Cred{UID: 9, GID: 9, Groups: []uint32{8, 1}}, 10, 2},
		{"the first that fits", shm.Cred{UID: 4711, GID: 1}, 1, 20},
		{"root has no right of its own", shm.Cred{UID: 0, GID: 0}, 5, 20},
		{"nobody else", shm.Cred{UID: 9, GID: 9}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := p.decide(tt.who)
			if tt.qps == 0 {
				if !errors.Is(err, ErrNotAllowed) || !strings.Contains(err.Error(), "user 9") {
					t.Errorf("%+v, %v", l, err)
				}
				return
			}
			if err != nil || l.QPs != tt.qps || l.CQs != tt.cqs || l.MRs != 0 {
				t.Errorf("%+v, %v", l, err)
			}
		})
	}
	if l, err := policyOf(t, "[limits]\nmax_qps = 3\n").decide(shm.Cred{UID: 9}); err != nil || l.QPs != 3 {
		t.Errorf("without entries: %+v, %v", l, err)
	}
	if l, err := policyOf(t, rules+"[[allow]]\n").decide(shm.Cred{UID: 9}); err != nil || l.QPs != 10 {
		t.Errorf("an entry for everyone: %+v, %v", l, err)
	}
}

// Every limit of the file is one of the server's.
func TestLimits(t *testing.T) {
	p := policyOf(t, `
[[allow]]
interfaces = ["eth0"]
max_clients = 1
max_qps = 2
max_cqs = 3
max_srqs = 4
max_mrs = 5
max_pds = 6
max_ahs = 7
max_xrcds = 8
max_cm_ids = 9
max_mcast_attach = 14
max_bytes = "10B"
max_registered = "11B"
max_rate = "96Mbit"
max_message_rate = 13
own_memory = false
privileged = true
`)
	got, err := p.decide(shm.Cred{UID: 9})
	want := serve.Limits{
		Devices: []string{"eth0"}, Clients: 1, QPs: 2, CQs: 3, SRQs: 4, MRs: 5, PDs: 6, AHs: 7, XRCDs: 8, CMIDs: 9, Groups: 14,
		Memory: 10, Registered: 11, BytesPerSecond: 12_000_000, Messages: 13, NoIndirect: true, Privileged: true,
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	if got, err := policyOf(t, "").decide(shm.Cred{}); err != nil || !cmp.Equal(got, serve.Limits{}) {
		t.Errorf("nothing given: %+v, %v", got, err)
	}
}

func TestControlPolicy(t *testing.T) {
	me := uint32(os.Geteuid())
	p := policyOf(t, "")
	for uid, want := range map[uint32]bool{0: true, me: true, 4711: false} {
		if got := p.control(&shm.Cred{UID: uid, GID: 1}); got != want {
			t.Errorf("user %d: %v", uid, got)
		}
	}
	p = policyOf(t, "group = \"daemon\"\n")
	if !p.control(&shm.Cred{UID: 4711, GID: 1}) || p.control(&shm.Cred{UID: 4711, GID: 2}) {
		t.Error("the control group")
	}
}

// A name that is unknown changes nothing.
func TestPolicyKeepsWhatItHas(t *testing.T) {
	p := policyOf(t, "[limits]\nmax_qps = 3\n")
	for _, c := range []*config.Config{
		{Group: "no-such-group"},
		{Allow: []config.Rule{{Users: []string{"no-such-user"}}}},
		{Allow: []config.Rule{{}, {Groups: []string{"no-such-group"}}}},
	} {
		if err := p.set(c); !errors.Is(err, config.ErrConfig) || !strings.Contains(err.Error(), "no-such") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if l, err := p.decide(shm.Cred{UID: 9}); err != nil || l.QPs != 3 {
		t.Errorf("%+v, %v", l, err)
	}
}
