//go:build soak

package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The unit under a systemd: it starts, serves an unprivileged program, reloads, is
// restarted by the watchdog, hands pinned programs over, and stops. A system call that
// it forbids ends the daemon here, where it would fail elsewhere. The build tag is `make
// soak`'s: booting a systemd takes longer than `make test` has time for.
func TestUnitRuns(t *testing.T) {
	program := filepath.Join(t.TempDir(), "roce-xdp")
	if out, err := exec.Command("go", "build", "-o", program, "../cmd/roce-xdp").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m := boot(t, program)
	m.dropIn("test", "[Service]\nStandardOutput=append:/mnt/said\nStandardError=append:/mnt/said\nSystemCallErrorNumber=kill")
	if _, err := m.run("prlimit --memlock=unlimited:unlimited true"); err != nil {
		// Without CAP_SYS_RESOURCE the systemd cannot set LimitMEMLOCK either.
		m.dropIn("lock", "[Service]\nAmbientCapabilities=CAP_IPC_LOCK\nCapabilityBoundingSet=CAP_IPC_LOCK")
	}
	m.must("systemctl start roce-xdp")
	m.wants("StatusText", "Serving eth0")

	m.must(`ip netns exec peer roce-xdp perf write-bw -d eth0 >/mnt/peer 2>&1 & sleep 1
setpriv --reuid 65534 --regid 65534 --clear-groups roce-xdp perf write-bw -d eth0 --daemon -n 2000 192.0.2.2
wait $!`)
	m.must("echo '[interface.eth1]' >>/etc/roce-xdp/roce-xdp.toml; systemctl reload roce-xdp")
	m.wants("StatusText", "Serving eth0, eth1")
	m.wants("NRestarts", "0")

	m.dropIn("pin", pinning(t))
	m.must("printf '[interface.eth0]\npin = true\n' >/etc/roce-xdp/roce-xdp.toml; systemctl restart roce-xdp")
	m.must("test -d /sys/fs/bpf/roce-xdp/eth0")
	m.must("kill -KILL $(systemctl show roce-xdp -P MainPID); ip link show eth0 | grep -q prog/xdp")
	m.wants("NRestarts", "1")
	m.wants("StatusText", "Serving eth0")

	m.dropIn("watchdog", "[Service]\nWatchdogSec=3")
	m.must("systemctl restart roce-xdp; kill -STOP $(systemctl show roce-xdp -P MainPID)")
	m.wants("NRestarts", "1")
	m.wants("StatusText", "Serving eth0")

	m.must("systemctl stop roce-xdp")
	m.wants("Result", "success")
	m.must("! test -e /run/roce-xdp")
}

// pinning is the drop-in that the unit describes for pinned programs.
func pinning(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if l, ok := strings.CutPrefix(line, "#   "); ok {
			lines = append(lines, strings.TrimSpace(l))
		}
	}
	if len(lines) < 2 {
		t.Fatalf("the unit says nothing of pins: %q", lines)
	}
	return strings.Join(lines, "\n")
}
