package privilege

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// settleEnv makes the test binary settle as the JSON of a Spec says, and report.
const settleEnv = "PRIVILEGE_TEST_SETTLE"

// report is what the process has become.
type report struct {
	Args    []string
	UID     int
	GID     int
	Groups  []int
	Threads []State // of every thread
	Err     string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(settleEnv); text != "" {
		settleAndReport(text)
	}
	os.Exit(m.Run())
}

func settleAndReport(text string) {
	var s Spec
	var r report
	err := json.Unmarshal([]byte(text), &s)
	if err == nil {
		err = Settle(s, func(uid, gid int) error {
			fmt.Fprintf(os.Stderr, "prepared for %d %d\n", uid, gid)
			return nil
		})
	}
	if err != nil {
		r.Err = err.Error()
	}
	r.Args, r.UID, r.GID = os.Args[1:], os.Getuid(), os.Getgid()
	r.Groups, _ = os.Getgroups()
	tasks, _ := filepath.Glob("/proc/self/task/*/status")
	for _, task := range tasks {
		f, err := os.Open(task)
		if err != nil {
			continue // a thread that has ended
		}
		st, err := parse(f)
		if err != nil {
			r.Err += err.Error()
		}
		f.Close()
		r.Threads = append(r.Threads, st)
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// settle runs a process of that credential, nil for this one's, which settles.
func settle(t *testing.T, s Spec, cred *syscall.Credential, ambient ...uintptr) (report, string) {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "these", "arguments")
	cmd.Env = append(os.Environ(), settleEnv+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred, AmbientCaps: ambient}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r, stderr.String()
}

func needRoot(t *testing.T) {
	t.Helper()
	st, err := Current()
	if err != nil {
		t.Fatal(err)
	}
	if st.UID != 0 || st.Effective&(setPCap|setUID|Kept) != setPCap|setUID|Kept {
		netns.Missing(t, "root", fmt.Sprintf("privileges are given up, which takes CAP_SETPCAP, CAP_SETUID and those that stay; this is %+v", st))
	}
}

// checkThreads wants every thread with nothing but the capabilities of Kept.
func checkThreads(t *testing.T, r report, uid int) {
	t.Helper()
	if len(r.Threads) < 2 {
		t.Errorf("only %d threads", len(r.Threads))
	}
	for _, st := range r.Threads {
		if want := (State{UID: uid, Permitted: Kept, Effective: Kept, Bounding: Kept, NoNewPrivs: true}); st != want {
			t.Errorf("a thread is %+v, want %+v", st, want)
		}
	}
	if !slices.Equal(r.Args, []string{"these", "arguments"}) {
		t.Errorf("arguments %q", r.Args)
	}
}

func TestSettleFromRoot(t *testing.T) {
	needRoot(t)
	for _, tt := range []struct {
		name   string
		spec   Spec
		uid    int
		gid    int
		groups []int
	}{
		{"a user by name", Spec{User: "nobody", Group: "daemon"}, 65534, 65534, []int{1, 65534}},
		{"a number without entry", Spec{User: "54321", Group: "54322"}, 54321, 54321, []int{54322}},
		{"root stays root", Spec{Group: "daemon"}, 0, 0, []int{1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, stderr := settle(t, tt.spec, nil)
			slices.Sort(r.Groups)
			if r.Err != "" || r.UID != tt.uid || r.GID != tt.gid || !slices.Equal(r.Groups, tt.groups) {
				t.Errorf("%+v", r)
			}
			checkThreads(t, r, tt.uid)
			if want := fmt.Sprintf("prepared for %d %d\n", tt.uid, tt.gid); stderr != want {
				t.Errorf("said %q, want %q", stderr, want)
			}
		})
	}
}

// A user that a manager gave the capabilities has nothing to give up but the way to more.
func TestSettleFromUser(t *testing.T) {
	needRoot(t)
	cred := &syscall.Credential{Uid: 54321, Gid: 54321}
	r, _ := settle(t, Spec{}, cred, 12, 13, 39)
	if r.Err != "" || r.UID != 54321 {
		t.Errorf("%+v", r)
	}
	for _, st := range r.Threads {
		if st.Permitted != Needed || st.Effective != Needed || !st.NoNewPrivs {
			t.Errorf("a thread is %+v", st)
		}
	}
}

func TestSettleRefusals(t *testing.T) {
	needRoot(t)
	user := &syscall.Credential{Uid: 54321, Gid: 54321}
	for _, tt := range []struct {
		name    string
		spec    Spec
		cred    *syscall.Credential
		ambient []uintptr
		says    string
	}{
		{"an ordinary user", Spec{}, user, nil, "user 54321 has no CAP_BPF (to load the XDP program), CAP_NET_ADMIN (to attach it), CAP_NET_RAW (for AF_XDP sockets): start it as root"},
		{"one capability missing", Spec{}, user, []uintptr{12, 39}, "user 54321 has no CAP_NET_RAW (for AF_XDP sockets): start"},
		{"another user without the right", Spec{User: "nobody"}, user, []uintptr{12, 13, 39}, "started as user 54321 and cannot become nobody"},
		{"no such user", Spec{User: "no-such-user"}, nil, nil, "cannot change the user: there is no user no-such-user in /etc/passwd: one of a directory service (LDAP, SSSD) is given by number"},
		{"no such group", Spec{Group: "no-such-group"}, nil, nil, "there is no group no-such-group in /etc/group: one of a directory service (LDAP, SSSD) is given by number"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if r, stderr := settle(t, tt.spec, tt.cred, tt.ambient...); !strings.Contains(r.Err, tt.says) || stderr != "" {
				t.Errorf("error %q, want that it says %q; prepared: %q", r.Err, tt.says, stderr)
			}
		})
	}
}

// TestUnknown: that a name could not be looked for is not that there is none.
func TestUnknown(t *testing.T) {
	for _, tt := range []struct {
		err  error
		says string
	}{
		{user.UnknownUserError("x"), "there is no user x in FILE"},
		{fmt.Errorf("lookup: %w", user.UnknownGroupError("x")), "there is no user x in FILE"},
		{syscall.EMFILE, "user x: too many open files"},
	} {
		if err := unknown("user", "FILE", "x", tt.err); !strings.HasPrefix(err.Error(), tt.says) {
			t.Errorf("%v, want %s", err, tt.says)
		}
	}
}

func TestCheck(t *testing.T) {
	if err := (State{Effective: Needed}).Check(); err != nil {
		t.Error(err)
	}
	err := State{UID: 7, Effective: Needed &^ BPF}.Check()
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "user 7 has no CAP_BPF (to load") {
		t.Error(err)
	}
}

func TestParse(t *testing.T) {
	good := "Name:\tx\nUid:\t1\t2\t3\t4\nCapPrm:\t0000008000003000\nCapEff:\t0\nCapBnd:\t3\nNoNewPrivs:\t1\n"
	st, err := parse(strings.NewReader(good))
	if want := (State{UID: 2, Permitted: Needed, Bounding: 3, NoNewPrivs: true}); err != nil || st != want {
		t.Errorf("%+v, %v", st, err)
	}
	for _, bad := range []string{"", "Uid:\t1\n", strings.Replace(good, "CapEff:\t0", "CapEff:\tx", 1), strings.Replace(good, "NoNewPrivs:\t1\n", "", 1)} {
		if st, err := parse(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is %+v", bad, st)
		}
	}
}

func TestSetText(t *testing.T) {
	for set, want := range map[Set]string{
		0: "none", BPF | NetRaw: "CAP_BPF, CAP_NET_RAW", IPCLock | 1: "CAP_IPC_LOCK, capability 0",
	} {
		if got := set.String(); got != want {
			t.Errorf("%x is %q, want %q", uint64(set), got, want)
		}
	}
}
