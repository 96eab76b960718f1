package xsk_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/roce-xdp/roce-xdp/datapath/xsk"
)

func TestUMEMDefaults(t *testing.T) {
	u := newUMEM(t, xsk.UMEMConfig{})
	page := unix.Getpagesize()
	if u.Frames() != xsk.DefaultFrames || u.FrameSize() != page || len(u.Bytes()) != page*xsk.DefaultFrames {
		t.Errorf("%d frames of %d bytes in %d", u.Frames(), u.FrameSize(), len(u.Bytes()))
	}
	if u.Headroom() != 0 || u.RxCapacity() != page-256 || u.HugePages() || u.Unaligned() || u.TxMetadataLen() != 0 {
		t.Errorf("headroom %d, capacity %d, huge %v, unaligned %v, metadata %d", u.Headroom(), u.RxCapacity(), u.HugePages(), u.Unaligned(), u.TxMetadataLen())
	}
	u = newUMEM(t, xsk.UMEMConfig{FrameSize: 2048, Headroom: 100, Frames: 3, TxMetadataLen: 16})
	if u.Headroom() != 100 || u.RxCapacity() != 2048-256-100 || u.Frames() != 3 || u.TxMetadataLen() != 16 {
		t.Errorf("headroom %d, capacity %d, frames %d, metadata %d", u.Headroom(), u.RxCapacity(), u.Frames(), u.TxMetadataLen())
	}
}

func TestUMEMConfigErrors(t *testing.T) {
	page := unix.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 4*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	for _, tc := range []struct {
		name string
		cfg  xsk.UMEMConfig
		says string
	}{
		{"frame too small", xsk.UMEMConfig{FrameSize: 1024}, "frame size"},
		{"frame larger than a page", xsk.UMEMConfig{FrameSize: 2 * page}, "page size"},
		{"negative frame size", xsk.UMEMConfig{FrameSize: -4096}, "frame size"},
		{"not a power of two", xsk.UMEMConfig{FrameSize: 3000}, "unaligned"},
		{"headroom too large", xsk.UMEMConfig{FrameSize: 2048, Headroom: 2048 - 256}, "headroom"},
		{"negative headroom", xsk.UMEMConfig{Headroom: -1}, "headroom"},
		{"negative frames", xsk.UMEMConfig{Frames: -1}, "frames"},
		{"too many frames", xsk.UMEMConfig{Frames: math.MaxInt32 + 1}, "frames"},
		{"metadata not a multiple of 8", xsk.UMEMConfig{TxMetadataLen: 20}, "metadata"},
		{"metadata too long", xsk.UMEMConfig{TxMetadataLen: 256}, "metadata"},
		{"memory too short", xsk.UMEMConfig{Frames: 5, Memory: mem}, "does not hold"},
		{"memory not at a page", xsk.UMEMConfig{Frames: 3, FrameSize: page, Memory: mem[64:]}, "page boundary"},
		{"memory of nothing", xsk.UMEMConfig{Memory: mem[:0]}, "frames"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u, err := xsk.NewUMEM(tc.cfg)
			if err == nil {
				u.Close()
				t.Fatal("made memory")
			}
			if !errors.Is(err, xsk.ErrConfig) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %q, want ErrConfig that says %q", err, tc.says)
			}
		})
	}
}

func TestUMEMOfCaller(t *testing.T) {
	page := unix.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 4*page+page/2, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	u, err := xsk.NewUMEM(xsk.UMEMConfig{Memory: mem})
	if err != nil {
		t.Fatal(err)
	}
	if u.Frames() != 4 || len(u.Bytes()) != 4*page {
		t.Errorf("%d frames in %d bytes, want the 4 that fit", u.Frames(), len(u.Bytes()))
	}
	u.Frame(xsk.Desc{Addr: uint64(page), Len: 1})[0] = 7
	if mem[page] != 7 {
		t.Error("the memory is not the caller's")
	}
	if err := u.Close(); err != nil {
		t.Fatal(err)
	}
	mem[0] = 1 // still mapped
}

func TestUMEMFrame(t *testing.T) {
	aligned := newUMEM(t, xsk.UMEMConfig{Frames: 4, FrameSize: 4096})
	unaligned := newUMEM(t, xsk.UMEMConfig{Frames: 4, FrameSize: 3000, Unaligned: true})
	const end = 4 * 4096
	for _, tc := range []struct {
		name       string
		u          *xsk.UMEM
		d          xsk.Desc
		start, cap int // start < 0: no frame
	}{
		{"whole", aligned, xsk.Desc{Addr: 4096, Len: 4096}, 4096, 4096},
		{"part", aligned, xsk.Desc{Addr: 4096 + 256, Len: 64}, 4352, 3840},
		{"nothing", aligned, xsk.Desc{Addr: 8191}, 8191, 1},
		{"last byte", aligned, xsk.Desc{Addr: end - 1, Len: 1}, end - 1, 1},
		{"options do not matter", aligned, xsk.Desc{Addr: 0, Len: 5, Options: 0xffffffff}, 0, 4096},
		{"crosses frames", aligned, xsk.Desc{Addr: 4096 + 100, Len: 4000}, -1, 0},
		{"crosses the end", aligned, xsk.Desc{Addr: end - 10, Len: 11}, -1, 0},
		{"beyond the end", aligned, xsk.Desc{Addr: end + 1}, -1, 0},
		{"longest", aligned, xsk.Desc{Addr: 0, Len: math.MaxUint32}, -1, 0},
		{"sum overflows", aligned, xsk.Desc{Addr: math.MaxUint64, Len: 2}, -1, 0},
		{"upper bits in aligned mode", aligned, xsk.Desc{Addr: 256 << 48, Len: 1}, -1, 0},
		{"unaligned base", unaligned, xsk.Desc{Addr: 3000, Len: 10}, 3000, 3000},
		{"unaligned offset", unaligned, xsk.Desc{Addr: 256<<48 | 3000, Len: 10}, 3256, 3000 - 256},
		{"unaligned sum", unaligned, xsk.Desc{Addr: 3256, Len: 10}, 3256, 3000 - 256},
		{"unaligned across frames", unaligned, xsk.Desc{Addr: 5000, Len: 2000}, 5000, 2000},
		{"unaligned across the end", unaligned, xsk.Desc{Addr: 11000, Len: 1001}, -1, 0},
		{"unaligned offset beyond the end", unaligned, xsk.Desc{Addr: 65535<<48 | 9000, Len: 1}, -1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.u.Frame(tc.d)
			if tc.start < 0 {
				if got != nil {
					t.Errorf("got %d bytes, want nil", len(got))
				}
				return
			}
			if got == nil || len(got) != int(tc.d.Len) || cap(got) != tc.cap {
				t.Fatalf("got %d bytes of %d, want %d of %d", len(got), cap(got), tc.d.Len, tc.cap)
			}
			if got := got[:1]; &got[0] != &tc.u.Bytes()[tc.start] {
				t.Errorf("does not begin at %d", tc.start)
			}
		})
	}
}

func BenchmarkFrame(b *testing.B) {
	u := newUMEM(b, xsk.UMEMConfig{Frames: 16})
	d := xsk.Desc{Addr: 4352, Len: 64}
	n := 0
	for b.Loop() {
		n += len(u.Frame(d))
	}
	if n == 0 {
		b.Fatal("no bytes")
	}
}
