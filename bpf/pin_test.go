package bpf

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// linkID identifies the link that is pinned in dir.
func linkID(t testing.TB, dir string) link.ID {
	t.Helper()
	l, err := link.LoadPinnedLink(filepath.Join(dir, pinLink), nil)
	check(t, err)
	defer l.Close()
	info, err := l.Info()
	check(t, err)
	return info.ID
}

func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	check(t, err)
	list := []string{}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	slices.Sort(list)
	return list
}

var allPins = []string{"addresses", "config", "counters", "link", "qpns", "xsks"}

// TestNetnsTakeOver restarts: the second program replaces the first behind the
// same link, and brings maps of its own.
func TestNetnsTakeOver(t *testing.T) {
	requireNetns(t)
	for _, mode := range []Mode{ModeNative, ModeGeneric} {
		t.Run(mode.String(), func(t *testing.T) {
			p := newPair(t, queues{})
			dir := filepath.Join(mountBPFFS(t), "roce-xdp", "rx0")
			first := load(t, &Options{PinDir: dir})
			check(t, p.attach(first, mode))
			check(t, first.AddAddress(ours4))
			check(t, first.AddQPN(ourQPN))
			if d := cmp.Diff(allPins, names(t, dir)); d != "" {
				t.Fatal(d)
			}
			id, before := linkID(t, dir), p.device()
			check(t, first.Close())
			if d := p.device(); d != before {
				t.Fatalf("Close changed %+v to %+v", before, d)
			}

			second := load(t, &Options{PinDir: dir})
			if d := p.device(); d != before {
				t.Fatalf("Load changed %+v to %+v", before, d)
			}
			check(t, p.attach(second, ModeAuto))
			after := p.device()
			if linkID(t, dir) != id || after.xdpProgram == before.xdpProgram || after.xdpMode != mode {
				t.Errorf("link %d became %d, %+v became %+v", id, linkID(t, dir), before, after)
			}
			if second.AttachedMode() != mode || (second.Fallback() != nil) != (mode == ModeGeneric) {
				t.Errorf("mode %v, fallback %v", second.AttachedMode(), second.Fallback())
			}
			// Queue pairs of the first process are gone with it.
			p.send(roce(), 5)
			eventually(t, "five frames", func() bool { return counts(t, second)[VerdictPassAddress] == 5 })
			checkPinnedMaps(t, dir, second)

			check(t, second.Detach())
			check(t, second.Close())
			if got := names(t, dir); got != nil || p.device().xdpProgram != 0 {
				t.Errorf("after Detach and Close: pins %v, program %d", got, p.device().xdpProgram)
			}
		})
	}
}

// checkPinnedMaps compares the pins with the maps that the program uses.
func checkPinnedMaps(t *testing.T, dir string, s *Steer) {
	t.Helper()
	for name, m := range s.pinnedMaps() {
		pinned, err := ebpf.LoadPinnedMap(filepath.Join(dir, name), nil)
		check(t, err)
		if mapID(t, pinned) != mapID(t, m) {
			t.Errorf("pin %s is not the map of the program", name)
		}
		check(t, pinned.Close())
	}
}

func mapID(t testing.TB, m *ebpf.Map) ebpf.MapID {
	t.Helper()
	info, err := m.Info()
	check(t, err)
	id, _ := info.ID()
	return id
}

// TestNetnsKilledProcess: while a process lives its pins are its own, and when it
// is killed they can be taken over.
func TestNetnsKilledProcess(t *testing.T) {
	p := newPair(t, queues{})
	dir := filepath.Join(mountBPFFS(t), "rx0")
	load(t, nil)
	child, line := startChild(t, nil, []*os.File{p.rx.ns}, childEnv+"=hold", childPins+"="+dir,
		childIndex+"="+strconv.Itoa(p.ifindex))
	if line != "" {
		t.Fatal("the child says: ", line)
	}
	before := p.device()
	_, err := Load(&Options{PinDir: dir})
	wantErr(t, err, ErrBusy, "a running process uses", dir)
	wantErr(t, p.attach(load(t, nil), ModeAuto), ErrBusy, "steer")

	check(t, child.Process.Kill())
	child.Wait()
	if d := p.device(); d != before {
		t.Fatalf("the death of the process changed %+v to %+v", before, d)
	}
	s := load(t, &Options{PinDir: dir})
	check(t, p.attach(s, ModeAuto))
	check(t, s.Detach())
}

// TestNetnsUnpin leaves the program attached just as long as the Steer is open.
func TestNetnsUnpin(t *testing.T) {
	p := newPair(t, queues{})
	dir := filepath.Join(mountBPFFS(t), "rx0")
	s := load(t, &Options{PinDir: dir})
	check(t, p.attach(s, ModeAuto))
	check(t, s.Unpin())
	check(t, s.Unpin())
	if got := names(t, dir); got != nil || p.device().xdpProgram == 0 {
		t.Errorf("after Unpin: pins %v, program %d", got, p.device().xdpProgram)
	}
	check(t, s.Close())
	if d := p.device(); d.xdpProgram != 0 {
		t.Errorf("after Close: program %d", d.xdpProgram)
	}
}

// TestNetnsAttachAgainWithPins detaches and attaches with the same directory.
func TestNetnsAttachAgainWithPins(t *testing.T) {
	p := newPair(t, queues{})
	dir := filepath.Join(mountBPFFS(t), "rx0")
	s := load(t, &Options{PinDir: dir})
	for range 2 {
		check(t, p.attach(s, ModeAuto))
		if d := cmp.Diff(allPins, names(t, dir)); d != "" {
			t.Error(d)
		}
		check(t, s.Detach())
		if got := names(t, dir); len(got) != 0 {
			t.Errorf("pins %v after Detach", got)
		}
	}
}

// TestNetnsPinnedElsewhere never touches a link to another interface.
func TestNetnsPinnedElsewhere(t *testing.T) {
	p, other := newPair(t, queues{}), newPair(t, queues{})
	dir := filepath.Join(mountBPFFS(t), "rx0")
	first := load(t, &Options{PinDir: dir})
	check(t, p.attach(first, ModeNative))
	check(t, first.Close())
	before := p.device()

	s := load(t, &Options{PinDir: dir})
	// Fresh namespaces number their interfaces alike: the index may be the same.
	wantErr(t, other.attach(s, ModeAuto), ErrPin, dir, "not rx0 of this network namespace")
	wantErr(t, p.attach(s, ModeGeneric), ErrPin, "native mode", "detach it first")
	if d := p.device(); d != before {
		t.Errorf("%+v became %+v", before, d)
	}
	check(t, p.attach(s, ModeNative))
	check(t, s.Detach())
}

// TestNetnsPinOfDeletedInterface is replaced: the link holds nothing any more.
func TestNetnsPinOfDeletedInterface(t *testing.T) {
	p, next := newPair(t, queues{}), newPair(t, queues{})
	dir := filepath.Join(mountBPFFS(t), "rx0")
	first := load(t, &Options{PinDir: dir})
	check(t, p.attach(first, ModeAuto))
	check(t, first.Close())
	p.rx.do(func() error {
		l, err := netlink.LinkByIndex(p.ifindex)
		if err != nil {
			return err
		}
		return netlink.LinkDel(l)
	})
	s := load(t, &Options{PinDir: dir})
	check(t, next.attach(s, ModeAuto))
	if d := cmp.Diff(allPins, names(t, dir)); d != "" {
		t.Error(d)
	}
	check(t, s.Detach())
}

func TestPinDirErrors(t *testing.T) {
	load(t, nil)
	bpffs := mountBPFFS(t)
	plain := t.TempDir()
	for _, c := range []struct {
		name, dir string
		words     []string
	}{
		{"not a BPF file system", filepath.Join(plain, "a", "b"), []string{"not on a BPF file system", "ip netns exec", plain}},
		{"relative", "roce-xdp/eth0", []string{"absolute"}},
		{"dot in the name", filepath.Join(bpffs, "eth0.100"), []string{"no dots"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(&Options{PinDir: c.dir})
			wantErr(t, err, ErrPin, c.words...)
		})
	}
	if got := names(t, plain); len(got) != 0 {
		t.Errorf("directories were made: %v", got)
	}
	file := filepath.Join(bpffs, pinLink)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	check(t, err)
	defer m.Close()
	check(t, m.Pin(file))
	s := load(t, &Options{PinDir: bpffs})
	p := newPair(t, queues{})
	if err := p.attach(s, ModeAuto); err == nil {
		t.Error("a map was taken for a link")
	}
	check(t, os.Remove(file))
	_, err = Load(&Options{PinDir: bpffs})
	wantErr(t, err, ErrBusy, bpffs)
	if !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("%v does not wrap the errno", err)
	}
}
