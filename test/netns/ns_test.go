package netns_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/test/netns"
)

// currentNS identifies the namespace of the calling thread.
func currentNS(t *testing.T) string {
	t.Helper()
	s, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNetnsDoEntersAndReturns(t *testing.T) {
	n := netns.ForTest(t)
	home := currentNS(t)
	var inside string
	var names []string
	err := n.Do(func() error {
		inside = currentNS(t)
		ifs, err := net.Interfaces()
		for _, i := range ifs {
			names = append(names, i.Name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if inside == home {
		t.Errorf("Do ran in the caller's namespace %s", home)
	}
	if len(names) != 1 || names[0] != "lo" {
		t.Errorf("new namespace has interfaces %v, want lo alone", names)
	}
	if now := currentNS(t); now != home {
		t.Errorf("after Do the caller is in %s, want %s", now, home)
	}
}

func TestNetnsDoReturnsError(t *testing.T) {
	n := netns.ForTest(t)
	want := errors.New("no")
	if err := n.Do(func() error { return want }); !errors.Is(err, want) {
		t.Errorf("Do = %v, want %v", err, want)
	}
}

func TestNetnsDoConcurrent(t *testing.T) {
	a, b := netns.ForTest(t), netns.ForTest(t)
	home := currentNS(t)
	seen := make([][]string, 2)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			n := []*netns.NS{a, b}[i%2]
			err := n.Do(func() error {
				s, err := os.Readlink("/proc/thread-self/ns/net")
				mu.Lock()
				defer mu.Unlock()
				seen[i%2] = append(seen[i%2], s)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, list := range seen {
		for _, s := range list {
			if s != list[0] || s == home {
				t.Errorf("namespace %d was entered as %s and %s (home %s)", i, list[0], s, home)
			}
		}
	}
	if seen[0][0] == seen[1][0] {
		t.Error("two namespaces are one")
	}
}

// A goroutine that ends inside Do, as FailNow does, ends the caller too.
func TestNetnsDoGoexit(t *testing.T) {
	n := netns.ForTest(t)
	home := currentNS(t)
	after := false
	var wg sync.WaitGroup
	wg.Go(func() {
		inner := &testing.T{}
		_ = n.Do(func() error {
			inner.FailNow()
			return nil
		})
		after = true
	})
	wg.Wait()
	if after {
		t.Error("the caller went on after FailNow inside Do")
	}
	if now := currentNS(t); now != home {
		t.Errorf("thread left in %s", now)
	}
}

func TestNetnsVisibleToOtherPrograms(t *testing.T) {
	n := netns.ForTest(t)
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		netns.Missing(t, "netns", "nsenter of util-linux is not installed")
	}
	var inside string
	if err := n.Do(func() error { inside = currentNS(t); return nil }); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(nsenter, "--net="+n.Path(), "readlink", "/proc/self/ns/net").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(out)); got != inside {
		t.Errorf("nsenter is in %s, Do in %s", got, inside)
	}
}

func TestNetnsClose(t *testing.T) {
	netns.Require(t)
	n, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(n.Path()); err != nil {
		t.Fatalf("namespace has no name: %v", err)
	}
	for range 2 {
		if err := n.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, err := os.Stat(n.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", n.Path(), err)
	}
	if err := n.Do(func() error { return nil }); !errors.Is(err, netns.ErrClosed) {
		t.Errorf("Do after Close = %v, want ErrClosed", err)
	}
	if _, err := n.Handle(); !errors.Is(err, netns.ErrClosed) {
		t.Errorf("Handle after Close = %v, want ErrClosed", err)
	}
}

func TestNetnsHandleWorksFromOutside(t *testing.T) {
	n := netns.ForTest(t)
	h, err := n.Handle()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	links, err := h.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	if len(links) != 1 || links[0].Attrs().Name != "lo" || links[0].Attrs().Flags&net.FlagUp == 0 {
		t.Errorf("links in the namespace: %v, want lo alone and up", links)
	}
}

// Sweep removes what a dead process left and nothing else.
func TestNetnsSweep(t *testing.T) {
	mine := netns.ForTest(t)
	dead := deadPID(t)
	leftover := netns.Dir + "/rxdp-" + dead + "-1"
	foreign := netns.Dir + "/other-" + dead + "-1"
	for _, path := range []string{leftover, foreign} {
		if err := os.WriteFile(path, nil, 0o444); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Remove(path) })
	}
	if err := unix.Mount(mine.Path(), leftover, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(leftover, unix.MNT_DETACH) })

	removed, err := netns.Sweep()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(removed, " "), "rxdp-"+dead+"-1") {
		t.Errorf("Sweep removed %v, want the leftover of process %s among them", removed, dead)
	}
	for path, want := range map[string]bool{leftover: false, foreign: true, mine.Path(): true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s exists: %v, want %v", path, err == nil, want)
		}
	}
}

// deadPID is the number of a process that has ended and was waited for.
func deadPID(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", "echo $$").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
