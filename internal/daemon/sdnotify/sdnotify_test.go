package sdnotify

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

func env(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

// manager listens as a service manager does.
func manager(t *testing.T, name string) func() string {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return func() string {
		b := make([]byte, 512)
		if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
}

func TestStates(t *testing.T) {
	for _, socket := range []string{filepath.Join(t.TempDir(), "notify"), "@roce-xdp-test-" + strconv.Itoa(os.Getpid())} {
		next := manager(t, socket)
		n, err := New(env(map[string]string{"NOTIFY_SOCKET": socket}))
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			send func() error
			want string
		}{
			{func() error { return n.Ready("eth0\nREADY=0") }, `^READY=1\nSTATUS=eth0; READY=0$`},
			{n.Reloading, `^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]+$`},
			{n.Watchdog, `^WATCHDOG=1$`},
			{n.Stopping, `^STOPPING=1$`},
		} {
			if err := step.send(); err != nil {
				t.Fatal(err)
			}
			if got := next(); !regexp.MustCompile(step.want).MatchString(got) {
				t.Errorf("%s: got %q, want %s", socket, got, step.want)
			}
		}
	}
}

func TestWithoutManager(t *testing.T) {
	n, err := New(env(nil))
	if err != nil || n.Interval() != 0 {
		t.Fatalf("%+v, %v", n, err)
	}
	if err := n.Ready("x"); err != nil {
		t.Error(err)
	}
	gone, err := New(env(map[string]string{"NOTIFY_SOCKET": filepath.Join(t.TempDir(), "nobody")}))
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Ready("x"); err == nil {
		t.Error("nobody listens, and it is no error")
	}
}

func TestEnvironment(t *testing.T) {
	me := strconv.Itoa(os.Getpid())
	for _, tt := range []struct {
		name string
		vars map[string]string
		want time.Duration
		ok   bool
	}{
		{"watchdog", map[string]string{"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": me}, 1500 * time.Millisecond, true},
		{"watchdog for everyone", map[string]string{"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "2000"}, time.Millisecond, true},
		{"watchdog of another process", map[string]string{"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "2000", "WATCHDOG_PID": "1"}, 0, true},
		{"no number", map[string]string{"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "soon"}, 0, false},
		{"negative", map[string]string{"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "-1"}, 0, false},
		{"relative path", map[string]string{"NOTIFY_SOCKET": "x"}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, err := New(env(tt.vars))
			if (err == nil) != tt.ok || err == nil && n.Interval() != tt.want {
				t.Errorf("%+v, %v", n, err)
			}
		})
	}
}
