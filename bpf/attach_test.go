package bpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
)

func TestNetnsAttach(t *testing.T) {
	requireNetns(t)
	for _, mode := range []Mode{ModeAuto, ModeNative, ModeGeneric} {
		t.Run(mode.String(), func(t *testing.T) {
			p, s := newPair(t, queues{}), loadForUs(t)
			check(t, s.Unregister(0))
			want := mode
			if mode == ModeAuto {
				want = ModeNative // veth has it
			}
			check(t, p.attach(s, mode))
			if s.AttachedMode() != want || p.device().xdpMode != want || s.Fallback() != nil {
				t.Fatalf("attached in %v mode, the kernel says %v, fallback %v; want %v",
					s.AttachedMode(), p.device().xdpMode, s.Fallback(), want)
			}
			const n = 20
			p.send(roce(), n)
			p.send(roce6(qpn(0x12)), n)
			p.send(roce6(payload(1200), port(53)), n)
			// The kernel's own chatter on a fresh interface moves other counters.
			eventually(t, "all frames counted", func() bool {
				c := counts(t, s)
				return c[VerdictDropNoSocket] == n && c[VerdictDropQPN] == n && c[VerdictPassPort] >= n
			})
		})
	}
}

// TestNetnsDetach attaches, detaches and attaches again.
func TestNetnsDetach(t *testing.T) {
	p, s := newPair(t, queues{}), load(t, nil)
	for _, mode := range []Mode{ModeGeneric, ModeNative, ModeAuto} {
		check(t, s.Detach()) // not attached: nothing happens
		check(t, p.attach(s, mode))
		wantErr(t, p.attach(s, mode), ErrAttached, "rx0", "detach first")
		check(t, s.Detach())
		if d := p.device(); d.xdpProgram != 0 || s.AttachedMode() != ModeAuto {
			t.Errorf("after Detach: program %d, mode %v", d.xdpProgram, s.AttachedMode())
		}
	}
}

// TestNetnsNothingLeftBehind compares what the process and the interface have
// before and after.
func TestNetnsNothingLeftBehind(t *testing.T) {
	p := newPair(t, queues{})
	use := func() {
		s, err := Load(nil)
		check(t, err)
		check(t, p.attach(s, ModeAuto))
		if descriptors(t) == 0 || mappings(t) == 0 {
			t.Fatal("what is open does not count")
		}
		check(t, s.Close())
		check(t, s.Close())
	}
	use() // what the libraries keep for good is there after this
	fds, maps := descriptors(t), mappings(t)
	for range 3 {
		use()
	}
	if got := descriptors(t); got > fds {
		t.Errorf("%d descriptors, %d before", got, fds)
	}
	if got := mappings(t); got > maps {
		t.Errorf("%d mappings of BPF maps, %d before", got, maps)
	}
	if d := p.device(); d.xdpProgram != 0 {
		t.Errorf("program %d is still attached", d.xdpProgram)
	}
}

// descriptors counts those of BPF maps, programs and links.
func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	n := 0
	for _, e := range list {
		if to, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err == nil && strings.Contains(to, "bpf") {
			n++
		}
	}
	return n
}

func mappings(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	check(t, err)
	return strings.Count(string(text), "bpf-map")
}

// TestNetnsBusyLink: the other program is one of ours, held by a link.
func TestNetnsBusyLink(t *testing.T) {
	requireNetns(t)
	for _, c := range []struct{ first, second Mode }{
		{ModeNative, ModeNative}, {ModeGeneric, ModeGeneric}, {ModeGeneric, ModeAuto}, {ModeNative, ModeGeneric},
	} {
		t.Run(fmt.Sprintf("%v and %v", c.first, c.second), func(t *testing.T) {
			p, first, second := newPair(t, queues{}), load(t, nil), load(t, nil)
			check(t, p.attach(first, c.first))
			before := p.device()
			wantErr(t, p.attach(second, c.second), ErrBusy,
				fmt.Sprint("program ", before.xdpProgram), `"steer"`, "rx0", c.first.String(), "bpftool link detach id")
			if after := p.device(); after != before || second.AttachedMode() != ModeAuto {
				t.Errorf("the refused attach changed %+v to %+v", before, after)
			}
		})
	}
}

// emptyProgram passes every frame.
func emptyProgram(name string) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{
		Name: name, Type: ebpf.XDP, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()},
	}
}

// TestNetnsBusyNetlink: the other program was attached the old way.
func TestNetnsBusyNetlink(t *testing.T) {
	p, s := newPair(t, queues{}), load(t, nil)
	other, err := ebpf.NewProgram(emptyProgram("other_one"))
	check(t, err)
	defer other.Close()
	p.rx.do(func() error {
		l, err := netlink.LinkByIndex(p.ifindex)
		if err != nil {
			return err
		}
		return netlink.LinkSetXdpFd(l, other.FD())
	})
	wantErr(t, p.attach(s, ModeAuto), ErrBusy, `"other_one"`, "ip link set dev rx0 xdpdrv off")
	if d := p.device(); d.xdpProgram == 0 {
		t.Error("the other program was removed")
	}
}

// TestNetnsVethQueues is the ENOSPC of veth.
func TestNetnsVethQueues(t *testing.T) {
	p, s := newPair(t, queues{rxOfRx: 1, txOfTx: 2}), load(t, nil)
	err := p.attach(s, ModeNative)
	wantErr(t, err, ErrQueues, "peer of rx0", "transmit queues", "ethtool -L")
	if !errors.Is(err, ErrRefused) {
		t.Errorf("%v does not wrap ErrRefused", err)
	}
	check(t, p.attach(s, ModeAuto))
	if s.AttachedMode() != ModeGeneric || p.device().xdpMode != ModeGeneric {
		t.Errorf("ModeAuto led to %v", s.AttachedMode())
	}
	wantErr(t, s.Fallback(), ErrQueues, "rx0 runs XDP in generic mode", "ethtool -L")
	check(t, s.Detach())
	if s.Fallback() != nil {
		t.Errorf("the fallback outlives Detach: %v", s.Fallback())
	}
}

func TestNetnsAttachErrors(t *testing.T) {
	p, s := newPair(t, queues{}), load(t, nil)
	for _, index := range []int{0, -1, 1 << 20, 1 << 40} {
		err := p.rx.try(func() error { return s.Attach(index, ModeAuto) })
		wantErr(t, err, ErrNoDevice, fmt.Sprint(index))
	}
	// The index exists in one of the two namespaces only.
	if p.tx.try(func() error { _, err := lookupDevice(p.ifindex); return err }) != nil {
		err := p.tx.try(func() error { return s.Attach(p.ifindex, ModeAuto) })
		wantErr(t, err, ErrNoDevice, "this network namespace")
	}
	wantErr(t, p.attach(s, Mode(9)), ErrRange, "Mode(9)")
}
