package netns

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	hugePage      = 2 << 20
	hugePages     = "/proc/sys/vm/nr_hugepages"
	compactMemory = "/proc/sys/vm/compact_memory"
	hugePagesFree = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"
)

// HugePages are huge pages of 2 MiB that the machine has set aside for a test.
type HugePages struct{ t TB }

// RaiseHugePages has the machine set n more huge pages aside until the test ends. Tests
// that do so take turns, also those of other processes. It skips or fails the test where
// there is no way to have them.
func RaiseHugePages(t TB, n int) *HugePages {
	t.Helper()
	RequireRoot(t, "to raise vm.nr_hugepages")
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "roce-xdp-huge-pages.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatalf("take a turn with huge pages: %v", err)
	}
	t.Cleanup(func() { _ = f.Close() }) // which ends the turn
	before, err := readNumber(hugePages)
	if err != nil {
		Missing(t, "hugepages", fmt.Sprintf("vm.nr_hugepages cannot be raised: %v", err))
	}
	set := func(n int) error { return os.WriteFile(hugePages, []byte(strconv.Itoa(n)), 0) }
	t.Cleanup(func() {
		if err := set(before); err != nil {
			t.Fatalf("put vm.nr_hugepages back to %d: %v", before, err)
		}
	})
	raise := func() error {
		if err := set(before + n); err != nil {
			return err
		}
		now, err := readNumber(hugePages)
		if err == nil && now < before+n {
			err = fmt.Errorf("the machine finds %d of %d", now-before, n)
		}
		return err
	}
	if err = raise(); err != nil {
		// What is free may be in pieces. A kernel that cannot bring them together says so here.
		if cerr := os.WriteFile(compactMemory, []byte("1"), 0); cerr == nil {
			err = raise()
		}
	}
	if err != nil {
		Missing(t, "hugepages", fmt.Sprintf("vm.nr_hugepages cannot be raised: %v", err))
	}
	return &HugePages{t}
}

// Free is how many there are that nobody has.
func (h *HugePages) Free() int {
	h.t.Helper()
	n, err := readNumber(hugePagesFree)
	if err != nil {
		h.t.Fatalf("%v", err)
	}
	return n
}

// Take takes n of them, as another program would, until the test ends or giveBack is
// called.
func (h *HugePages) Take(n int) (giveBack func()) {
	h.t.Helper()
	if n <= 0 {
		return func() {}
	}
	b, err := unix.Mmap(-1, 0, n*hugePage, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE|unix.MAP_HUGETLB|unix.MAP_HUGE_2MB)
	if err != nil {
		h.t.Fatalf("take %d huge pages, %d are free: %v", n, h.Free(), err)
	}
	giveBack = func() {
		if b != nil {
			_ = unix.Munmap(b)
			b = nil
		}
	}
	h.t.Cleanup(giveBack)
	return giveBack
}

func readNumber(path string) (int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}
