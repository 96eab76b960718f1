package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/roce-xdp/roce-xdp/test/netns"
	"github.com/roce-xdp/roce-xdp/verbs"
)

// TestNetnsHugePages: huge_pages puts packet memory and large buffers of programs into
// huge pages, of a daemon without privileges too; those of others it leaves alone, and
// where there are too few it says what to do.
func TestNetnsHugePages(t *testing.T) {
	pages := netns.RaiseHugePages(t, 16)
	pair := netns.PairForTest(t, netns.PairOptions{MTU: 1500})
	for _, tt := range []struct {
		name           string
		file           string
		taken          bool // by others
		packets, large bool // are in huge pages
		warns          bool
	}{
		{"asked for", "huge_pages = true\n", false, true, true, false},
		{"not asked for", "", false, false, false, false},
		{"all taken", "huge_pages = true\n", true, false, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.taken {
				defer pages.Take(pages.Free())()
			}
			dir := netns.ShortTempDir(t)
			file := filepath.Join(dir, "roce-xdp.toml")
			writeConfig(t, file, "[interface.eth0]\nqueues = 1\nframes = 512\nring_size = 256\n"+tt.file)
			before := pages.Free()
			d := startDaemon(t, pair.A.NS, filepath.Join(dir, "run"), "--user nobody --config "+file)
			opened := pages.Free()
			if (opened < before) != tt.packets {
				t.Errorf("%d huge pages are free with the daemon, %d were", opened, before)
			}
			t.Setenv("ROCE_XDP_RUNTIME_DIR", d.dir)
			dev, err := verbs.Open("eth0")
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			b, err := dev.AllocBuffer(3 << 20)
			if err != nil {
				t.Fatal(err)
			}
			b[0], b[len(b)-1] = 1, 2
			if took := opened - pages.Free(); (took == 2) != tt.large || !tt.large && took != 0 {
				t.Errorf("a buffer of 3 MiB took %d huge pages", took)
			}
			if err := dev.Close(); err != nil {
				t.Error(err)
			}
			d.stop(t)
			if says := strings.Contains(d.log.String(), "raise vm.nr_hugepages"); says != tt.warns {
				t.Errorf("the log speaks of huge pages: %v: %s", says, d.log)
			}
			// The kernel lets go of packet memory a moment later.
			for end := time.Now().Add(10 * time.Second); pages.Free() != before; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d huge pages are free afterwards, %d were", pages.Free(), before)
				}
			}
		})
	}
}
