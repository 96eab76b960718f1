package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/datapath"
	"github.com/roce-xdp/roce-xdp/internal/daemon/control"
	"github.com/roce-xdp/roce-xdp/internal/session"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

const both = "[interface.mem0]\n[interface.mem1]\n"

func TestRun(t *testing.T) {
	r := newRig(t)
	procs := runtime.GOMAXPROCS(0)
	r.start(both)
	if got := runtime.GOMAXPROCS(0); got != procs+2 {
		t.Errorf("%d processors for the rest of the daemon and two workers, want %d", got, procs+2)
	}
	if want := "roce-xdp: ready: mem0, mem1; sockets in " + r.dir + "\n"; r.out.String() != want {
		t.Errorf("it said %q, want %q", r.out, want)
	}
	for name, want := range map[string]os.FileMode{session.SocketName: 0o666, control.SocketName: 0o600} {
		info, err := os.Stat(filepath.Join(r.dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if h := r.health(); h.Status != control.StatusOK || len(h.Devices) != 2 || h.PID != os.Getpid() {
		t.Errorf("health %+v", h)
	}
	links, err := r.client.Links(t.Context())
	if err != nil || len(links) != 2 || links[1].Text("ifname") != "mem1" || links[1].Text("ifindex") != "1" || links[1].Text("state") != "ACTIVE" {
		t.Errorf("links %v, %v", links, err)
	}
	qps, err := r.client.Resources(t.Context(), "qp")
	if err != nil || len(qps) != 2 || qps[0].Text("ifname") != "mem0" || qps[0].Text("lqpn") != "17" || qps[1].Text("ifindex") != "1" {
		t.Errorf("queue pairs %v, %v", qps, err)
	}
	sum, err := r.client.Resources(t.Context(), "")
	if err != nil || len(sum) != 2 || sum[0].Text("qp") != "1" || sum[0].Text("cq") != "0" {
		t.Errorf("summary %v, %v", sum, err)
	}
	stats, err := r.client.Statistics(t.Context())
	if err != nil || len(stats) != 2 || stats[0][3].Key != "sent_pkts" {
		t.Errorf("statistics %v, %v", stats, err)
	}
	r.stop()
	if err := r.end(); err != nil {
		t.Error(err)
	}
	r.wantHistory("add mem0, add mem1, shutdown, remove mem0, remove mem1")
	if got := runtime.GOMAXPROCS(0); got != procs {
		t.Errorf("%d processors afterwards, %d before", got, procs)
	}
	if _, err := r.devices["mem0"].QueryPort(); !errors.Is(err, datapath.ErrClosed) {
		t.Errorf("the device is not closed: %v", err)
	}
}

// What the service has to say is in the health.
func TestProblemsAreShown(t *testing.T) {
	r := newRig(t)
	r.start(both)
	if h := r.health(); h.Status != control.StatusOK || h.Problems != nil {
		t.Errorf("without problems: %+v", h)
	}
	r.service.mu.Lock()
	r.service.problems = []string{"a worker waits"}
	r.service.mu.Unlock()
	if h := r.health(); h.Status != control.StatusDegraded || !slices.Equal(h.Problems, r.service.problems) {
		t.Errorf("with one: %+v", h)
	}
	r.stop()
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// Programs that do not end in time do not hold up the daemon.
func TestStopTimeout(t *testing.T) {
	r := newRig(t)
	r.service.stuck = true
	r.start("stop_timeout = \"500ms\"\n" + both)
	began := time.Now()
	r.stop()
	r.eventually("the stop is shown", func() bool {
		h, err := r.client.Health(t.Context())
		return err == nil && h.Status == control.StatusStopping
	})
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("programs had %v", took)
	}
	if !strings.Contains(r.log.String(), "not all programs have ended in time") {
		t.Errorf("it said %s", r.log)
	}
}

// A start that fails leaves nothing behind.
func TestStartFails(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare func(*rig)
		want    error
		history string
	}{
		{"an interface is missing", func(r *rig) { delete(r.devices, "mem1") }, errAbsent, "add mem0, shutdown, remove mem0"},
		{"the service refuses a device", func(r *rig) { r.service.refuse = "mem1" }, errRefused, "add mem0, add mem1, shutdown, remove mem0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			tt.prepare(r)
			r.begin(both)
			if err := r.end(); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			r.wantHistory(tt.history)
			if r.out.String() != "" {
				t.Errorf("it said %q", r.out)
			}
			if _, err := os.Stat(r.dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the runtime directory: %v", err)
			}
		})
	}
}

// A device that fails is closed, and opened again when its interface is back.
func TestDeviceFailsAndComesBack(t *testing.T) {
	r := newRig(t)
	r.start(both)
	lost, back := r.devices["mem0"], newRig(t).devices["mem0"]
	r.mu.Lock()
	delete(r.devices, "mem0")
	r.mu.Unlock()
	r.d.failed <- failure{"mem0", lost}
	r.eventually("the loss", func() bool { return r.health().Status == control.StatusDegraded })
	links, err := r.client.Links(t.Context())
	if err != nil || links[0].Text("state") != "DOWN" || links[1].Text("state") != "ACTIVE" {
		t.Errorf("links %v, %v", links, err)
	}
	r.eventually("the reason", func() bool { return r.health().Devices[0].Error == errAbsent.Error() })
	r.d.failed <- failure{"mem0", lost} // told twice
	r.mu.Lock()
	r.devices["mem0"] = back
	r.mu.Unlock()
	r.eventually("the return", func() bool { return r.health().Status == control.StatusOK })
	r.stop()
	if err := r.end(); err != nil {
		t.Error(err)
	}
	r.wantHistory("add mem0, add mem1, remove mem0, add mem0, shutdown, remove mem0, remove mem1")
}

func TestReload(t *testing.T) {
	r := newRig(t)
	r.start("[interface.mem0]\nqueues = 1\n")
	reload := func(text, changes, pending string) {
		t.Helper()
		r.write(text)
		got, err := r.client.Reload(t.Context())
		if err != nil || strings.Join(got.Changes, "; ") != changes || strings.Join(got.Pending, "; ") != pending {
			t.Errorf("%+v, %v; want %q and %q", got, err, changes, pending)
		}
	}
	reload("[interface.mem0]\nqueues = 1\n", "", "")
	reload("stop_timeout = \"1s\"\nlog_level = \"debug\"\nuser = \"root\"\n[limits]\nmax_qps = 3\n[interface.mem0]\nring_size = 64\n",
		"stop_timeout: 5s -> 1s; log_level: info -> debug; limits.max_qps: default -> 3, for programs that connect from now on",
		"user: none -> root, at the next start; interface.mem0.queues: 1 -> default, at the next start; interface.mem0.ring_size: default -> 64, at the next start")
	reload("[limits]\nmax_qps = 3\n[interface.mem1]\n[interface.mem0]\nqueues = 1\n", "stop_timeout: 1s -> 5s; log_level: debug -> info; interface.mem1: opened", "")
	reload("[interface.mem1]\n", "limits.max_qps: 3 -> default, for programs that connect from now on; interface.mem0: closed", "")
	reload("[interface.mem1]\n[interface.mem7]\n", "", "interface.mem7: "+errAbsent.Error()+"; it is tried again every 1s")
	r.write("nonsense = 1\n")
	if _, err := r.client.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), ":1: unknown key nonsense") {
		t.Errorf("error %v", err)
	}
	r.write("[[allow]]\nusers = [\"no-such-user\"]\n[interface.mem1]\n")
	if _, err := r.client.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "allow, entry 1: there is no user no-such-user") {
		t.Errorf("error %v", err)
	}
	r.write("[interface.mem1]\n")
	r.reload <- os.Interrupt // whatever it is, it comes from the channel
	r.eventually("the reload", func() bool { return len(r.health().Devices) == 1 })
	r.stop()
	if err := r.end(); err != nil {
		t.Error(err)
	}
	r.wantHistory("add mem0, add mem1, remove mem0, shutdown, remove mem1")
}

// What waits for the next start is told by every reload until then, and has no effect: not
// on who may use the control socket either, which has the permissions that it was made with.
func TestReloadOfWhatWaits(t *testing.T) {
	r := newRig(t)
	own := uint32(os.Getgid()) // which anybody may give a file
	started := fmt.Sprintf("group = \"%d\"\n[interface.mem0]\n", own)
	r.start(started)
	for range 2 {
		r.write(fmt.Sprintf("group = \"%d\"\npin_dir = \"/elsewhere\"\n[interface.mem0]\n", own+1))
		got, err := r.client.Reload(t.Context())
		if err != nil || len(got.Changes) != 0 || strings.Join(got.Pending, "; ") != fmt.Sprintf("pin_dir: /sys/fs/bpf/roce-xdp -> /elsewhere, at the next start; group: %d -> %d, at the next start", own, own+1) {
			t.Errorf("%+v, %v", got, err)
		}
		if !r.d.policy.control(&shm.Cred{UID: 4711, GID: own}) || r.d.policy.control(&shm.Cred{UID: 4711, GID: own + 1}) {
			t.Error("the group of the control socket is another one than its members may use")
		}
	}
	r.write("group = \"no-such-group\"\n[interface.mem0]\n")
	if _, err := r.client.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "there is no group no-such-group") {
		t.Errorf("error %v", err)
	}
	r.write("[interface.mem0]\n")
	if got, err := r.client.Reload(t.Context()); err != nil || strings.Join(got.Pending, "; ") != fmt.Sprintf("group: %d -> none, at the next start", own) {
		t.Errorf("without a group: %+v, %v", got, err)
	}
	r.write(started)
	if got, err := r.client.Reload(t.Context()); err != nil || len(got.Changes)+len(got.Pending) != 0 {
		t.Errorf("as it was: %+v, %v", got, err)
	}
	r.stop()
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// An interface that a reload of either kind adds, and that is not there yet, is opened
// when it is.
func TestReloadAddsWhatComesLater(t *testing.T) {
	for name, reload := range map[string]func(r *rig){
		"from the control socket": func(r *rig) {
			if _, err := r.client.Reload(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"by a signal": func(r *rig) { r.reload <- os.Interrupt },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			late := r.devices["mem1"]
			r.mu.Lock()
			delete(r.devices, "mem1")
			r.mu.Unlock()
			r.start("[interface.mem0]\n")
			r.write(both)
			reload(r)
			r.eventually("what is missing", func() bool { return r.health().Status == control.StatusDegraded })
			r.mu.Lock()
			r.devices["mem1"] = late
			r.mu.Unlock()
			r.eventually("the interface", func() bool { return r.health().Status == control.StatusOK })
			r.stop()
			if err := r.end(); err != nil {
				t.Error(err)
			}
			r.wantHistory("add mem0, add mem1, shutdown, remove mem0, remove mem1")
		})
	}
}

// The service manager learns of every state, and that the daemon is alive.
func TestServiceManager(t *testing.T) {
	r := newRig(t)
	socket := filepath.Join(filepath.Dir(r.dir), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	next := func(want string) {
		t.Helper()
		b := make([]byte, 512)
		for {
			if err := manager.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			n, err := manager.Read(b)
			if err != nil {
				t.Fatalf("%v instead of %q", err, want)
			}
			if got := string(b[:n]); got != "WATCHDOG=1" || want == got {
				if !strings.HasPrefix(got, want) {
					t.Errorf("the manager was told %q, want %q", got, want)
				}
				return
			}
		}
	}
	r.env["NOTIFY_SOCKET"], r.env["WATCHDOG_USEC"] = socket, "40000"
	r.start(both)
	next("READY=1\nSTATUS=Serving mem0, mem1")
	next("WATCHDOG=1")
	next("WATCHDOG=1")
	r.write("[interface.mem0]\n")
	if _, err := r.client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	next("RELOADING=1\nMONOTONIC_USEC=")
	next("READY=1\nSTATUS=Serving mem0")
	r.stop()
	next("STOPPING=1")
	if err := r.end(); err != nil {
		t.Error(err)
	}
}
