package memory

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"testing"
)

// truncatable is two pages of a mapped file, and a function that takes the
// second one away.
func truncatable(t *testing.T) (mem []byte, truncate func()) {
	mem, resize := resizable(t)
	return mem, func() { resize(1) }
}

// resizable is two pages of a mapped file, and a function that says how many
// there are.
func resizable(t *testing.T) (mem []byte, resize func(pages int)) {
	t.Helper()
	page := os.Getpagesize()
	f, err := os.Create(filepath.Join(t.TempDir(), "pages"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(int64(2 * page)); err != nil {
		t.Fatal(err)
	}
	mem, err = syscall.Mmap(int(f.Fd()), 0, 2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	return mem, func(pages int) {
		if err := f.Truncate(int64(pages * page)); err != nil {
			t.Error(err)
		}
	}
}

func TestRevocableMemoryGoesAway(t *testing.T) {
	page := uint64(os.Getpagesize())
	for name, access := range map[string]func(*Region) bool{
		"read":         func(r *Region) bool { return r.Read(page-8, make([]byte, 4096)) },
		"write":        func(r *Region) bool { return r.Write(page-8, make([]byte, 4096)) },
		"final write":  func(r *Region) bool { return r.WriteFinal(page-8, make([]byte, 4096)) },
		"final word":   func(r *Region) bool { return r.WriteFinal(page, make([]byte, 8)) },
		"final 3 byte": func(r *Region) bool { return r.WriteFinal(page, make([]byte, 3)) },
	} {
		t.Run(name, func(t *testing.T) {
			mem, truncate := truncatable(t)
			tab := newTable(2)
			r, err := tab.RegisterRevocable(1, 0, mem, allRemote)
			if err != nil {
				t.Fatal(err)
			}
			if !access(r) || !r.Valid() {
				t.Fatal("refused while the pages are there")
			}
			truncate()
			if access(r) || r.Valid() {
				t.Fatal("still valid")
			}
			if _, ok := tab.Access(r.RKey(), 1, 0, 0, 8); ok {
				t.Error("the key still works")
			}
			// The first page is still there, but the region is not.
			if r.Read(0, make([]byte, 8)) || r.Write(0, make([]byte, 8)) || r.WriteFinal(0, make([]byte, 8)) {
				t.Error("used after it was revoked")
			}
			if err := tab.Deregister(r); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRevokedByTwoAtOnce(t *testing.T) {
	mem, truncate := truncatable(t)
	r, err := newTable(1).RegisterRevocable(1, 0, mem, allRemote)
	if err != nil {
		t.Fatal(err)
	}
	truncate()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if r.Write(uint64(len(mem)-64), make([]byte, 64)) {
				t.Error("written to a page that is not there")
			}
		})
	}
	wg.Wait()
}

func TestGuard(t *testing.T) {
	if ran := false; !Guard(func() { ran = true }) || !ran {
		t.Error("a function without a fault")
	}
	var p *int
	for name, f := range map[string]func(){
		"own panic":   func() { panic("own") },
		"nil pointer": func() { *p = 1 },
		"index":       func() { _ = make([]byte, 1)[len(name(1))] },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: swallowed", name)
				}
			}()
			Guard(f)
		}()
	}
	// The setting of the goroutine is as it was.
	if old := debug.SetPanicOnFault(false); old {
		t.Error("faults still panic")
	}
}

func name(n int) string { return "xx"[:n] }

func TestGuardedAccessDoesNotAllocate(t *testing.T) {
	r, err := newTable(1).RegisterRevocable(1, 0, make([]byte, 256), allRemote)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	if n := testing.AllocsPerRun(100, func() {
		if !r.Write(1, buf) || !r.WriteFinal(1, buf) || !r.Read(1, buf) {
			t.Fatal("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
